// Rank 0 never enters a collective. The others say so at the deadline, cannot use the group any
// more, and all of them end MPI cleanly. Argument: which collective.
#include <comm/programs/program.hpp>
#include <lockstep/base/clock.hpp>
#include <lockstep/comm/mpi_group.hpp>

using namespace lockstep;
using test::contains;
using test::expect;

namespace {

constexpr double timeout_s = 4.0;  // of making the group too

void expect_in_time(Clock::time_point start, const std::string& what) {
  const double waited = seconds_since(start);
  expect(waited >= timeout_s && waited < 10 * timeout_s,  // a busy machine may be late
         what + " ended after " + std::to_string(waited) + " s, not at the deadline");
}

void collective_without_rank_0(ProcessGroup& group, const std::string& which) {
  const auto t = Tensor::zeros({21840});
  const auto rows = Tensor::zeros({group.size(), 21840});
  const auto call = [&] {
    if (which == "all_reduce") group.all_reduce(t, ReduceOp::sum).wait();
    if (which == "broadcast") group.broadcast(t, 0).wait();
    if (which == "all_gather") group.all_gather(t, rows).wait();
    if (which == "barrier") group.barrier();
  };
  const auto start = Clock::now();
  const std::string message = test::thrown_by<TimeoutError>(call, which);
  expect_in_time(start, which);
  const std::string tensor = which == "barrier" ? "" : " of f32[21840]";
  const std::string details = which == "all_reduce"  ? "(sum)"
                              : which == "broadcast" ? "(root 0)"
                                                     : "";
  const std::string sentence = which + details + " #2" + tensor + " has not completed after ";
  const std::string who = " s: rank 0 has not entered it (its last was barrier #1; its process ";
  const std::string speaker =
      "rank " + std::to_string(group.rank()) + " of " + std::to_string(group.size()) + " (";
  expect(contains(message, sentence) && contains(message, who) && contains(message, speaker),
         "message: " + message);

  const auto later = Clock::now();
  const std::string refusal = test::thrown_by<CommError>(call, "a later call");
  expect(contains(refusal, which + details + " #2"),
         "refusal does not name the first failure: " + refusal);
  test::thrown_by<CommError>([&] { group.close(); }, "close of a failed group");
  expect(seconds_since(later) < timeout_s, "later calls waited again");
}

void making_without_rank_0(const GroupOptions& options) {
  const auto start = Clock::now();
  const std::string message = test::thrown_by<TimeoutError>(
      [&] { static_cast<void>(make_mpi_group(MPI_COMM_WORLD, options)); }, "make_mpi_group");
  expect_in_time(start, "make_mpi_group");
  expect(contains(message, "make_mpi_group has waited "), "message: " + message);
}

}  // namespace

int main(int argc, char** argv) {
  MpiSession session(argc, argv, std::chrono::milliseconds::max());  // it is not to end at once
  const std::string which = argv[1];
  const GroupOptions options{.timeout = std::chrono::milliseconds(4000)};
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm meeting = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &meeting);
  if (which == "make_mpi_group") {
    if (rank != 0) making_without_rank_0(options);
  } else {
    const auto group = make_mpi_group(MPI_COMM_WORLD, options);
    group->barrier();
    if (rank != 0) collective_without_rank_0(*group, which);
  }
  MPI_Barrier(meeting);
  MPI_Comm_free(&meeting);
  return test::failures ? 1 : 0;
}
