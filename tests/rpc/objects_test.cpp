// Objects of any serialisable type, in collectives and messages.
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <lockstep/comm/fake_group.hpp>
#include <lockstep/comm/threads_group.hpp>
#include <lockstep/rpc/objects.hpp>
#include <support/message_of.hpp>

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

/// Cannot be serialised where `why` is not empty, and by something odd where it is "number".
struct Fragile {
  std::string why;
  template <class Archive>
  void save(Archive& archive) const {
    if (why == "number") throw 7;
    if (!why.empty()) throw std::runtime_error(why);
    archive(why);
  }
  template <class Archive>
  void load(Archive& archive) {
    archive(why);
  }
};

TEST(Objects, ThatCannotBeSerialisedOnOneRankAreRefusedOnAll) {
  run_ranks_as_threads(object_ranks, [](ProcessGroup& group) {
    for (const std::string& why :
         {std::string("the file is closed"), std::string("number"), std::string(100000, 'x')}) {
      for (int failing = 0; failing < object_ranks; ++failing) {
        const Fragile mine{group.rank() == failing ? why : ""};
        const std::string begin =
            "rank " + std::to_string(failing) + " of 3 cannot send its object: ";
        const auto expect_refused = [&](const auto& call) {
          const std::string message =
              test::message_of<InputError>([&] { static_cast<void>(call()); });
          EXPECT_TRUE(message.starts_with(begin)) << message;
          EXPECT_LT(message.size(), 3000U);
          if (why == "the file is closed") {
            EXPECT_EQ(message, begin + why);
          }
        };
        expect_refused([&] { return all_gather_object(group, mine); });
        expect_refused([&] { return gather_object(group, mine, 1); });
        expect_refused([&] { return broadcast_object(group, mine, failing); });
        expect_refused([&] {
          return scatter_object(group, std::vector<Fragile>{{}, mine, {}}, failing);
        });
      }
    }
    EXPECT_EQ(all_gather_object(group, group.rank()), (std::vector<int>{0, 1, 2}));
  });
}

TEST(Objects, OfAMessageThatCannotBeSerialisedAreRefusedOnBothSides) {
  run_ranks_as_threads(2, [](ProcessGroup& group) {
    Fragile received;
    EXPECT_EQ(test::message_of<InputError>([&] {
                if (group.rank() == 1) return send_object(group, Fragile{"it is closed"}, 0);
                static_cast<void>(recv_object(group, received, any_source));
              }),
              "rank 1 cannot send its object: it is closed");
    if (group.rank() == 1) return send_object(group, 5, 0);
    int number = 0;
    EXPECT_EQ(recv_object(group, number, 1), 1);
    EXPECT_EQ(number, 5);
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
