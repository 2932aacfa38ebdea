// Objects of any serialisable type, in collectives and messages.
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <lockstep/comm/fake_group.hpp>
#include <lockstep/comm/threads_group.hpp>
#include <lockstep/rpc/objects.hpp>

namespace lockstep {
namespace {

struct Report {
  std::string name;
  std::map<std::string, std::vector<double>> figures;
  std::optional<int> best;
  Tensor weights;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(name, figures, best, weights);
  }
};

Report report_of(int rank) {
  return {.name = "rank " + std::to_string(rank),
          .figures = {{"loss", std::vector<double>(static_cast<std::size_t>(rank), 0.5)}},
          .best = rank == 0 ? std::nullopt : std::optional(rank),
          .weights = rank == 1 ? Tensor() : Tensor::full({rank + 1, 2}, rank)};
}

void expect_report_of(int rank, const Report& report) {
  const Report expected = report_of(rank);
  EXPECT_EQ(report.name, expected.name);
  EXPECT_EQ(report.figures, expected.figures);
  EXPECT_EQ(report.best, expected.best);
  ASSERT_EQ(report.weights.defined(), expected.weights.defined());
  if (!expected.weights.defined()) return;
  EXPECT_EQ(report.weights.shape(), expected.weights.shape());
  EXPECT_EQ(report.weights.to_vector<float>(), expected.weights.to_vector<float>());
}

constexpr int object_ranks = 3;

TEST(Objects, OfAnyTypeTravelInEveryCollective) {
  run_ranks_as_threads(object_ranks, [](ProcessGroup& group) {
    const int me = group.rank();
    const auto all = all_gather_object(group, report_of(me));
    ASSERT_EQ(all.size(), 3U);
    for (int r = 0; r < object_ranks; ++r) expect_report_of(r, all[static_cast<std::size_t>(r)]);
    expect_report_of(2, broadcast_object(group, me == 2 ? report_of(2) : Report(), 2));
    const auto gathered = gather_object(group, report_of(me), 1);
    EXPECT_EQ(gathered.size(), me == 1 ? 3U : 0U);
    if (me == 1) expect_report_of(2, gathered[2]);
    const std::vector<Report> list =
        me == 0 ? std::vector{report_of(0), report_of(1), report_of(2)} : std::vector<Report>();
    expect_report_of(me, scatter_object(group, list, 0));
    EXPECT_THROW(static_cast<void>(scatter_object(group, std::vector<Report>(1), 0)), InputError);
    EXPECT_EQ(all_gather_object(group, me * me), (std::vector<int>{0, 1, 4}));
    EXPECT_EQ(all_gather_object(group, "text"), std::vector<std::string>(3, "text"));
  });
}

TEST(Objects, OfAnyTypeTravelInMessages) {
  run_ranks_as_threads(object_ranks, [](ProcessGroup& group) {
    const int me = group.rank();
    if (me > 0) return send_object(group, report_of(me), 0, 7);
    int senders = 0;
    for (int i = 1; i < object_ranks; ++i) {
      Report report;
      const int from = recv_object(group, report, any_source, 7);
      expect_report_of(from, report);
      senders += from;
    }
    EXPECT_EQ(senders, 3);
  });
}

TEST(Objects, OfAnotherTypeAreRefused) {
  run_ranks_as_threads(2, [](ProcessGroup& group) {
    if (group.rank() == 1) return send_object(group, 1.5, 0);
    int number = 0;
    EXPECT_THROW(recv_object(group, number, 1), rpc::MalformedMessage);
  });
}

TEST(Objects, DamagedOnesAreRefused) {
  const Tensor bytes = rpc::serialised(report_of(2));
  expect_report_of(2, rpc::deserialised<Report>(bytes, 0));
  for (std::int64_t length = 0; length < bytes.numel(); ++length) {
    EXPECT_THROW(static_cast<void>(rpc::deserialised<Report>(bytes.slice(0, length), 0)),
                 rpc::MalformedMessage)
        << length;
  }
}

}  // namespace
}  // namespace lockstep
