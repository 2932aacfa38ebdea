// How long rank 0 waits for an answer of rank 1, which sleeps between the calls: prints the median
// of some, and what the library says at level debug (over_network_test.cpp).
//   mpiexec -n 2 from_idle_program [quietly (without datagrams)]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include <lockstep/base/clock.hpp>
#include <lockstep/base/log.hpp>
#include <lockstep/comm/mpi_group.hpp>
#include <lockstep/rpc/rpc.hpp>

using namespace lockstep;

namespace {

int squared(int x) { return x * x; }
LOCKSTEP_RPC(squared);

double median_seconds(int calls) {
  std::vector<double> seconds;
  for (int i = 0; i < calls; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    const auto start = Clock::now();
    if (rpc::rpc_sync(1, squared, i) != i * i) throw Error("an answer is wrong");
    seconds.push_back(seconds_since(start));
  }
  std::ranges::sort(seconds);
  return seconds[seconds.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
  try {
    set_log_sink(
        [](LogLevel, std::string_view text) {
          std::printf("%.*s\n", static_cast<int>(text.size()), text.data());
        },
        LogLevel::debug);
    // Over TCP MPICH's own MPI_Finalize hangs now and then (docs/reference/limits.md).
    const MpiSession session(argc, argv, std::chrono::seconds(10));
    const auto group = make_mpi_group(MPI_COMM_WORLD);
    rpc::init("worker" + std::to_string(group->rank()), *group, {.wake_by_datagrams = argc < 2});
    if (group->rank() == 0) std::printf("median: %.6f s\n", median_seconds(100));
    rpc::shutdown();
    group->close();
    std::puts("all answers are right");
    std::fflush(stdout);
    return 0;
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return static_cast<int>(error.exit_code());
  }
}
