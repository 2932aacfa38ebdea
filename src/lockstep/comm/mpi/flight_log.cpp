#include <lockstep/comm/mpi/flight_log.hpp>

#include <array>
#include <numeric>
#include <random>
#include <vector>

#include <lockstep/comm/mpi/status.hpp>

namespace lockstep {
namespace {

/// A new job's number; one that somebody has already is larger, and so wins below.
std::uint64_t draw_job() {
  constexpr std::uint64_t taken = std::uint64_t{1} << 63U;
  if (const auto recorder = FlightRecorder::current()) return recorder->job() | taken;
  std::random_device random;
  return (std::uint64_t{random()} << 32U | random()) & ~taken;
}

std::vector<int> world_ranks(MPI_Comm comm) {
  int size = 0;
  check_mpi(MPI_Comm_size(comm, &size), "MPI_Comm_size");
  std::vector<int> mine(static_cast<std::size_t>(size)), theirs(mine.size());
  std::iota(mine.begin(), mine.end(), 0);
  MPI_Group group = MPI_GROUP_NULL, world = MPI_GROUP_NULL;
  check_mpi(MPI_Comm_group(comm, &group), "MPI_Comm_group");
  check_mpi(MPI_Comm_group(MPI_COMM_WORLD, &world), "MPI_Comm_group");
  const int status = MPI_Group_translate_ranks(group, size, mine.data(), world, theirs.data());
  MPI_Group_free(&world);
  MPI_Group_free(&group);
  check_mpi(status, "MPI_Group_translate_ranks");
  return theirs;
}

}  // namespace

FlightLog open_flight_log(MPI_Comm comm, const std::string& dir, const MpiWait& wait) {
  std::array<std::uint64_t, 2> largest{FlightRecorder::next_group_number(),
                                       draw_job()};  // of all members
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(MPI_Iallreduce(MPI_IN_PLACE, largest.data(), static_cast<int>(largest.size()),
                           MPI_UINT64_T, MPI_MAX, comm, &request),
            "MPI_Iallreduce");
  wait(request);
  const auto [number, job] = largest;

  FlightIdentity identity{.job = job & ~(std::uint64_t{1} << 63U), .rank = 0, .size = 1};
  check_mpi(MPI_Comm_rank(MPI_COMM_WORLD, &identity.rank), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(MPI_COMM_WORLD, &identity.size), "MPI_Comm_size");
  auto recorder = FlightRecorder::open(identity, dir);
  if (!recorder) return {};
  const int group = recorder->add_group(number, world_ranks(comm));
  return {std::move(recorder), group};
}

}  // namespace lockstep
