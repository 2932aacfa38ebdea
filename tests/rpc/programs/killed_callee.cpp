// Rank 1 is killed while it executes a call of rank 0 (killed_callee_test.cpp). Argument: a file to
// mark the moment.
#include <csignal>
#include <cstdio>
#include <string>

#include <comm/programs/program.hpp>
#include <lockstep/comm/mpi_group.hpp>
#include <lockstep/rpc/rpc.hpp>

using namespace lockstep;

namespace {

void die(const std::string& mark) {
  test::mark(mark.c_str());
  ::raise(SIGKILL);
}
LOCKSTEP_RPC(die);

}  // namespace

int main(int argc, char** argv) {
  try {
    MpiSession session(argc, argv);
    const auto group = make_mpi_group(MPI_COMM_WORLD);
    rpc::init("worker" + std::to_string(group->rank()), *group);
    if (group->rank() == 0) {
      rpc::rpc_sync(rpc::To(1).within(std::chrono::seconds(10)), die, std::string(argv[1]));
    }
    rpc::shutdown();
    return 0;
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return static_cast<int>(error.exit_code());
  }
}
