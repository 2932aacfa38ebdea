// One rank throws between two collectives: its MpiSession must not wait in MPI_Finalize for peers
// that wait for it; the launcher ends the other ranks (job_ends_test.cpp). Argument: a file to mark
// the moment.
#include <comm/programs/program.hpp>
#include <lockstep/comm/mpi_group.hpp>

using namespace lockstep;

int main(int argc, char** argv) {
  try {
    MpiSession session(argc, argv);
    const auto group = make_mpi_group(MPI_COMM_WORLD);
    group->barrier();
    if (group->rank() == 1) {
      test::mark(argv[1]);
      throw InputError("the data file of rank 1 is missing");
    }
    group->barrier();
    return 0;
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return static_cast<int>(error.exit_code());
  }
}
