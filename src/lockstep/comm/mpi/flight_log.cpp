#include <lockstep/comm/mpi/flight_log.hpp>

#include <algorithm>
#include <array>
#include <vector>

#include <lockstep/base/random_bits.hpp>
#include <lockstep/comm/mpi/all_gather_values.hpp>
#include <lockstep/comm/mpi/status.hpp>

namespace lockstep {
namespace {

/// A new job number. An existing one is larger, so it wins the max all-reduce below.
std::uint64_t draw_job() {
  constexpr std::uint64_t taken = std::uint64_t{1} << 63U;
  if (const auto recorder = FlightRecorder::current()) return recorder->job() | taken;
  return random_bits() & ~taken;
}

std::vector<int> world_ranks(const MpiRanks& ranks) {
  std::vector<int> mine, theirs(static_cast<std::size_t>(ranks.size()));
  for (int r = 0; r < ranks.size(); ++r) mine.push_back(ranks.mpi_rank(r));
  MPI_Group group = MPI_GROUP_NULL, world = MPI_GROUP_NULL;
  check_mpi(MPI_Comm_group(ranks.messages(), &group), "MPI_Comm_group");
  check_mpi(MPI_Comm_group(MPI_COMM_WORLD, &world), "MPI_Comm_group");
  const int status =
      MPI_Group_translate_ranks(group, ranks.size(), mine.data(), world, theirs.data());
  MPI_Group_free(&world);
  MPI_Group_free(&group);
  check_mpi(status, "MPI_Group_translate_ranks");
  return theirs;
}

}  // namespace

FlightLog open_flight_log(const MpiRanks& ranks, const std::string& dir, const MpiWait& wait) {
  using Proposal = std::array<std::uint64_t, 2>;
  std::uint64_t number = 0, job = 0;  // the largest of all members
  const Proposal mine{FlightRecorder::next_group_number(), draw_job()};
  for (const Proposal& theirs : all_gather_values(mine, ranks, wait)) {
    number = std::max(number, theirs[0]);
    job = std::max(job, theirs[1]);
  }

  FlightIdentity identity{.job = job & ~(std::uint64_t{1} << 63U), .rank = 0, .size = 1};
  check_mpi(MPI_Comm_rank(MPI_COMM_WORLD, &identity.rank), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(MPI_COMM_WORLD, &identity.size), "MPI_Comm_size");
  auto recorder = FlightRecorder::open(identity, dir);
  if (!recorder) return {};
  const int group = recorder->add_group(number, world_ranks(ranks));
  return {std::move(recorder), group};
}

}  // namespace lockstep
