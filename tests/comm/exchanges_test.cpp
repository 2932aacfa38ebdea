// all_to_all and all_to_all_v.
#include <string>

#include <gtest/gtest.h>
#include <comm/backend.hpp>
#include <comm/tensors.hpp>
#include <lockstep/base/error.hpp>

namespace lockstep {
namespace {

using test::Arena;
using test::Counts;

/// Messages between two ranks.
std::vector<double> parcel(DType dtype, int from, int to, std::int64_t n) {
  return test::values(dtype, from, n, to + 1);
}

TEST(AllToAll, SendsRowRToRankR) {
  test::on_every_group([](ProcessGroup& everybody) {
    const auto claim = [](ProcessGroup& group, Arena& arena) {
      for (const DType dtype : test::every_dtype) {
        for (const std::int64_t n : {0, 1, 33, 501}) {
          SCOPED_TRACE(std::string(name_of(dtype)) + " x " + std::to_string(n));
          arena.reset();
          const auto input = arena.take({group.size(), n}, dtype);
          const auto output = arena.take({group.size(), n}, dtype);
          for (int to = 0; to < group.size(); ++to) {
            test::set_values(input.slice(to, to + 1), parcel(dtype, group.rank(), to, n));
          }
          group.all_to_all(input, output).wait();
          for (int from = 0; from < group.size(); ++from) {
            EXPECT_EQ(test::values_of(output.slice(from, from + 1)),
                      parcel(dtype, from, group.rank(), n));
            EXPECT_EQ(test::values_of(input.slice(from, from + 1)),
                      parcel(dtype, group.rank(), from, n));
          }
          EXPECT_TRUE(arena.guards_hold());
        }
      }
    };
    test::in_every_place(claim, everybody);
  });
}

/// Rows from one rank to another: any number, often none.
std::int64_t rows(int from, int to) { return (from * 5 + to * 3) % 4 * 7; }

TEST(AllToAllV, SendsByCountsThatDifferByRank) {
  test::on_every_group([](ProcessGroup& everybody) {
    const auto claim = [](ProcessGroup& group, Arena& arena) {
      const int me = group.rank();
      Counts sent, received;
      for (int r = 0; r < group.size(); ++r) {
        sent.push_back(rows(me, r));
        received.push_back(rows(r, me));
      }
      for (const DType dtype : test::every_dtype) {
        SCOPED_TRACE(std::string(name_of(dtype)));
        arena.reset();
        std::vector<double> mine, expected;
        for (int r = 0; r < group.size(); ++r) {
          const auto to = parcel(dtype, me, r, rows(me, r) * 3);
          const auto from = parcel(dtype, r, me, rows(r, me) * 3);
          mine.insert(mine.end(), to.begin(), to.end());
          expected.insert(expected.end(), from.begin(), from.end());
        }
        const auto input = arena.take({test::total(sent), 3}, dtype, mine);
        const auto output = arena.take({test::total(received), 3}, dtype);
        group.all_to_all_v(input, output, sent, received).wait();
        EXPECT_EQ(test::values_of(output), expected);
        EXPECT_TRUE(arena.guards_hold());
      }
    };
    test::in_every_place(claim, everybody);
  });
}

TEST(AllToAllV, AcceptsEmptyTensors) {
  test::on_every_group([](ProcessGroup& group) {
    const Counts none(static_cast<std::size_t>(group.size()), 0);
    const auto input = Tensor::empty({0, 4}), output = Tensor::empty({0, 4});
    group.all_to_all_v(input, output, none, none).wait();
  });
}

/// Rank 0 sends `sent` rows where rank 1 expects two; every other count is two everywhere.
void counts_that_differ(ProcessGroup& group, std::int64_t sent) {
  if (group.size() < 2) return;
  Counts mine(static_cast<std::size_t>(group.size()), 2);
  const Counts others(static_cast<std::size_t>(group.size()), 2);
  if (group.rank() == 0) mine[1] = sent;
  const auto input = Tensor::full({test::total(mine)}, 1.0);
  const auto whole = Tensor::full({test::total(others) + 8}, 7.0);
  const auto output = whole.slice(4, 4 + test::total(others));
  std::string message;
  try {
    group.all_to_all_v(input, output, mine, others).wait();
  } catch (const CommError& error) {
    message = error.what();
  }
  if (group.rank() == 1) {
    EXPECT_NE(message.find("rank 1"), std::string::npos) << message;
    EXPECT_NE(message.find("rank 0 sen"), std::string::npos) << message;
    // Of a message that was cut off MPI does not always say how long it was.
    const bool told = message.find(std::to_string(sent)) != std::string::npos ||
                      (sent > 2 && message.find("sent more elements") != std::string::npos);
    EXPECT_TRUE(told) << message;
  }
  EXPECT_EQ(whole.slice(0, 4).to_vector<float>(), std::vector<float>(4, 7.0F));
  EXPECT_EQ(whole.slice(4 + test::total(others), 8 + test::total(others)).to_vector<float>(),
            std::vector<float>(4, 7.0F));
}

TEST(AllToAllV, NamesBothRanksWhoseCountsDiffer) {
  for (const int sent : {1, 5}) {
    test::on_every_new_group([&](ProcessGroup& group) { counts_that_differ(group, sent); });
  }
}

}  // namespace
}  // namespace lockstep
