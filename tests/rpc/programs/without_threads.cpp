// Below MPI_THREAD_MULTIPLE there are no threads: calls are executed in waits and in serve().
#include <comm/programs/program.hpp>
#include <lockstep/comm/mpi_group.hpp>
#include <lockstep/rpc/agent.hpp>
#include <lockstep/rpc/rpc.hpp>

using namespace lockstep;
using test::expect;

namespace {

std::atomic<int> served = 0;
int serve_one(int a) {
  ++served;
  return a + 1;
}
int there_and_back(int back, int depth) {
  return depth == 0 ? 0 : 1 + rpc::rpc_sync(back, there_and_back, rpc::this_worker().id, depth - 1);
}
LOCKSTEP_RPC(serve_one);
LOCKSTEP_RPC(there_and_back);

}  // namespace

int main(int argc, char** argv) {
  int provided = MPI_THREAD_SINGLE;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
  const auto group = make_mpi_group(MPI_COMM_WORLD);
  rpc::init("worker" + std::to_string(group->rank()), *group);
  expect(provided >= MPI_THREAD_MULTIPLE || !rpc::Agent::current().has_threads(), "no threads");
  if (group->rank() == 0) {
    for (int i = 0; i < 10; ++i) expect(rpc::rpc_sync(1, serve_one, i) == i + 1, "the answer");
    expect(rpc::rpc_sync(1, there_and_back, 0, 20) == 20, "nested calls");
  } else if (group->rank() == 1) {
    rpc::serve_until([] { return served == 10; });
  }
  rpc::shutdown();  // serves the rest
  group->close();
  MPI_Finalize();
  return test::failures ? 1 : 0;
}
