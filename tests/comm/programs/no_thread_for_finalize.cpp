// An MpiSession ends where no thread can be started: MPI_Finalize is called without its deadline.
#include <chrono>
#include <optional>

#include <comm/no_thread_starts.hpp>
#include <lockstep/comm/mpi_group.hpp>

using namespace lockstep;

int main(int argc, char** argv) {
  std::optional<test::NoThreadStarts> none;
  const MpiSession session(argc, argv, std::chrono::seconds(60));
  none.emplace();  // until the session has ended
  return 0;
}
