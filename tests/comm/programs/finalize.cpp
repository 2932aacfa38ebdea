// Groups that are not closed: their destructors are local, MPI_Finalize frees their communicators,
// and later calls throw without touching MPI.
#include <comm/programs/program.hpp>
#include <lockstep/comm/mpi_group.hpp>

using namespace lockstep;
using test::expect;

int main(int argc, char** argv) {
  test::thrown_by<CommError>([] { static_cast<void>(make_mpi_group(MPI_COMM_WORLD)); },
                             "make_mpi_group before MPI_Init");
  MPI_Init(&argc, &argv);
  const auto t = Tensor::full({1000}, 1.0);
  auto destroyed = make_mpi_group(MPI_COMM_WORLD);
  destroyed->all_reduce(t, ReduceOp::sum).wait();
  expect(t.to_vector<float>().back() == static_cast<float>(destroyed->size()), "the sum is right");
  static_cast<void>(destroyed->all_reduce(t, ReduceOp::sum));  // dropped, perhaps still in flight
  destroyed.reset();

  static const auto kept = make_mpi_group(MPI_COMM_WORLD);  // destroyed after main()
  kept->barrier();
  const auto closed = make_mpi_group(MPI_COMM_WORLD);
  closed->close();
  auto unfinished = kept->all_reduce(t, ReduceOp::sum);  // last: any wait would move it on

  int initialized = 0;
  int finalized = 0;
  MPI_Initialized(&initialized);
  MPI_Finalized(&finalized);
  expect(initialized && !finalized, "groups leave MPI as they found it");
  MPI_Finalize();

  test::thrown_by<CommError>([] { kept->barrier(); }, "a barrier after MPI_Finalize");
  test::thrown_by<CommError>([] { kept->close(); }, "close after MPI_Finalize");
  // Of one rank it was over at once.
  if (kept->size() == 1) unfinished.wait();
  if (kept->size() > 1) {
    test::thrown_by<CommError>([&] { unfinished.wait(); }, "wait after MPI_Finalize");
  }
  test::thrown_by<CommError>([] { static_cast<void>(make_mpi_group(MPI_COMM_WORLD)); },
                             "make_mpi_group after MPI_Finalize");
  return test::failures ? 1 : 0;
}
