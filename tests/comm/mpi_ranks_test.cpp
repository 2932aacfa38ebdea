// Set-up among ranks that need no communicator, and its end at a deadline.
#include <algorithm>
#include <numeric>

#include <gtest/gtest.h>
#include <mpi.h>
#include <lockstep/base/error.hpp>
#include <lockstep/comm/mpi/all_gather_values.hpp>
#include <lockstep/comm/mpi/max_all_reduce.hpp>

namespace lockstep {
namespace {

const MpiWait patient(0, "this rank", "the test", std::chrono::seconds(60));

/// All ranks, the last one first.
MpiRanks backwards(const MpiRanks& all) {
  std::vector<int> order(static_cast<std::size_t>(all.size()));
  std::iota(order.rbegin(), order.rend(), 0);
  return all.some(order).apart(patient);
}

TEST(MpiRanks, GiveNumbersInTheirOwnOrder) {
  MpiRanks all = MpiRanks::of(MPI_COMM_WORLD, patient);
  MpiRanks reversed = backwards(all);
  EXPECT_EQ(reversed.rank(), all.size() - 1 - all.rank());
  EXPECT_EQ(reversed.rank_of(reversed.mpi_rank(0)), 0);
  EXPECT_TRUE(all.have_communicator());
  EXPECT_FALSE(reversed.have_communicator());
  const auto given = all_gather_values(all.rank(), reversed, patient);
  for (int r = 0; r < all.size(); ++r) {
    EXPECT_EQ(given[static_cast<std::size_t>(r)], all.size() - 1 - r);
  }
  EXPECT_EQ(reversed.leave(), MPI_SUCCESS);
  EXPECT_EQ(all.leave(), MPI_SUCCESS);
}

TEST(MpiRanks, FindTheLargestOnAnyRank) {
  MpiRanks all = MpiRanks::of(MPI_COMM_WORLD, patient);
  const MpiRanks reversed = backwards(all);
  for (int winner = 0; winner < all.size(); ++winner) {
    const auto w = static_cast<std::uint64_t>(winner);
    MaxAllReduce largest;
    const int tag = reversed.tag(MpiRanks::Purpose::rendezvous, w);
    largest.start(reversed, tag,
                  {all.rank() == winner ? 1000 + w : w, all.rank() == winner ? 0U : 7U});
    patient.until([&] { return largest.move(reversed); });
    EXPECT_EQ(largest.known()[0], 1000 + w);
    EXPECT_EQ(largest.known()[1], all.size() > 1 ? 7U : 0U);
  }
}

TEST(MpiRanks, WaitForAMissingRankUntilTheDeadline) {
  MpiRanks all = MpiRanks::of(MPI_COMM_WORLD, patient);
  if (all.size() > 1 && all.rank() > 0) {
    const MpiWait brief(7, "rank 7 of 9", "making a group", std::chrono::milliseconds(300));
    try {
      static_cast<void>(all.apart(brief));
      ADD_FAILURE() << "was made without rank 0";
    } catch (const TimeoutError& error) {
      EXPECT_NE(std::string(error.what()).find("rank 7 of 9: making a group has waited"),
                std::string::npos)
          << error.what();
    }
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

}  // namespace
}  // namespace lockstep
