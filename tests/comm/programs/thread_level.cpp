// Groups work at the thread level MPI was initialised with, and below SERIALIZED refuse other
// threads. Argument: single, funneled, serialized or multiple.
#include <thread>

#include <comm/programs/program.hpp>
#include <lockstep/comm/mpi_group.hpp>
#include <lockstep/comm/thread_level.hpp>

using namespace lockstep;
using test::expect;

int main(int argc, char** argv) {
  const std::string name = argc > 1 ? argv[1] : "";
  const int level = name == "single"       ? MPI_THREAD_SINGLE
                    : name == "funneled"   ? MPI_THREAD_FUNNELED
                    : name == "serialized" ? MPI_THREAD_SERIALIZED
                                           : MPI_THREAD_MULTIPLE;
  int provided = MPI_THREAD_SINGLE;
  MPI_Init_thread(&argc, &argv, level, &provided);
  const auto group = make_mpi_group(MPI_COMM_WORLD);
  expect(threads_may_communicate(*group) == (provided >= MPI_THREAD_MULTIPLE),
         "threads may communicate at MPI_THREAD_MULTIPLE");
  const auto reduce = [&] {
    const auto t = Tensor::full({1000}, 1.0);
    group->all_reduce(t, ReduceOp::sum).wait();
    expect(t.to_vector<float>().back() == static_cast<float>(group->size()), "the sum is right");
  };
  reduce();
  std::thread([&] {
    if (provided >= MPI_THREAD_SERIALIZED) {
      reduce();
    } else {
      const auto message = test::thrown_by<CommError>(reduce, "a call from another thread");
      expect(test::contains(message, "MPI_THREAD_MULTIPLE"), "message: " + message);
    }
  }).join();
  reduce();
  group->close();
  int main_thread = 0;
  MPI_Is_thread_main(&main_thread);
  expect(main_thread, "MPI's main thread is as before");
  MPI_Finalize();
  return test::failures ? 1 : 0;
}
