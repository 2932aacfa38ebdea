// Calls that differ are named on every rank of several nodes, though the ranks compare them while
// they wait for each other and one comes late. Argument: single or multiple, MPI's thread level.
#include <chrono>
#include <thread>

#include <comm/programs/program.hpp>
#include <lockstep/base/clock.hpp>
#include <lockstep/comm/mpi_group.hpp>

using namespace lockstep;
using test::expect;

int main(int argc, char** argv) {
  const bool single = argc > 1 && std::string(argv[1]) == "single";
  int provided = MPI_THREAD_SINGLE;
  MPI_Init_thread(&argc, &argv, single ? MPI_THREAD_SINGLE : MPI_THREAD_MULTIPLE, &provided);
  const auto group = make_mpi_group(
      MPI_COMM_WORLD, {.timeout = std::chrono::seconds(30), .pretended_nodes = {2, 2}});
  const bool late = group->rank() == 3;
  if (late) std::this_thread::sleep_for(std::chrono::milliseconds(200));
  const auto start = Clock::now();
  const auto message = test::thrown_by<CommError>(
      [&] { group->all_reduce(Tensor::zeros({9}), late ? ReduceOp::max : ReduceOp::sum).wait(); },
      "a call that is another on rank 3");
  expect(seconds_since(start) < 15, "it is told long before the deadline");
  for (const char* call : {"all_reduce(sum) #1 of f32[9]", "all_reduce(max) #1 of f32[9]"}) {
    expect(test::contains(message, call), std::string(call) + " is not in: " + message);
  }
  MPI_Finalize();
  return test::failures ? 1 : 0;
}
