// Both ranks end by an exception, without shutdown and with a call in flight: the exit code is the
// exception's (killed_callee_test.cpp).
#include <chrono>
#include <cstdio>
#include <string>
#include <thread>

#include <lockstep/comm/mpi_group.hpp>
#include <lockstep/rpc/rpc.hpp>

using namespace lockstep;

namespace {

int takes_a_while(int ms) {
  std::this_thread::sleep_for(std::chrono::milliseconds(ms));
  return ms;
}
LOCKSTEP_RPC(takes_a_while);

}  // namespace

int main(int argc, char** argv) {
  try {
    MpiSession session(argc, argv);
    const auto group = make_mpi_group(MPI_COMM_WORLD);
    rpc::init("worker" + std::to_string(group->rank()), *group);
    rpc::rpc_sync(1 - group->rank(), takes_a_while, 0);
    const auto waits = rpc::rpc_async(1 - group->rank(), takes_a_while, 20);
    group->barrier();
    throw InputError("the data set is not what it was");
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return static_cast<int>(error.exit_code());
  }
}
