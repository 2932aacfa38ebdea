// The host's time for an all_reduce of 4 bytes on a GPU, in microseconds: NCCL itself with blocking
// and with non-blocking communicators, and an nccl group of each contract, which uses the latter.
//   mpiexec -n RANKS comm.nccl_launch_bench [CALLS]
//
// Ranks may share the first GPU, which NCCL does not promise to support. Prints a line per side:
// the median of CALLS (2000) calls, of the slowest rank, and its difference from the first. Device
// work is waited for every 64 calls, outside the timed part. Exits with 1 if NCCL fails.
#include <cuda_runtime_api.h>
#include <mpi.h>
#include <nccl.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <lockstep/base/clock.hpp>
#include <lockstep/comm/mpi_group.hpp>
#include <lockstep/comm/nccl_group.hpp>
#include <lockstep/comm/objects.hpp>
#include <lockstep/tensor/stream.hpp>

namespace lockstep {
namespace {

constexpr Device gpu{DeviceType::cuda, 0};

void expect(ncclResult_t result) {
  if (result != ncclSuccess && result != ncclInProgress) {
    throw std::runtime_error(std::string("NCCL: ") + ncclGetErrorString(result));
  }
}

/// NCCL's own communicator over all ranks.
class RawComm {
 public:
  RawComm(ProcessGroup& control, bool blocking) : blocking_(blocking) {
    ncclUniqueId id{};
    if (control.rank() == 0) expect(ncclGetUniqueId(&id));
    MPI_Bcast(&id, sizeof id, MPI_BYTE, 0, MPI_COMM_WORLD);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = blocking ? 1 : 0;
    expect(ncclCommInitRankConfig(&comm_, control.size(), id, control.rank(), &config));
    settle();
  }
  ~RawComm() { ncclCommAbort(comm_); }
  RawComm(const RawComm&) = delete;
  RawComm& operator=(const RawComm&) = delete;

  void all_reduce(const Tensor& t) {
    expect(ncclAllReduce(t.data(), t.data(), 1, ncclFloat, ncclSum, comm_,
                         static_cast<cudaStream_t>(current_stream(gpu).handle())));
    settle();
  }

 private:
  /// Waits until the host's part of the last call is over.
  void settle() {
    if (blocking_) return;
    ncclResult_t state = ncclInProgress;
    while (state == ncclInProgress) expect(ncclCommGetAsyncError(comm_, &state));
    expect(state);
  }

  ncclComm_t comm_ = nullptr;
  bool blocking_;
};

/// The median of the calls' times, of the slowest rank.
template <class Call>
double median_us(ProcessGroup& control, int calls, const Call& call) {
  std::vector<double> us;
  for (int i = 0; i < calls; ++i) {
    if (i % 64 == 0) {
      current_stream(gpu).synchronize();
      control.barrier();
    }
    const auto start = Clock::now();
    call();
    us.push_back(1e6 * seconds_since(start));
  }
  current_stream(gpu).synchronize();
  std::nth_element(us.begin(), us.begin() + calls / 2, us.end());
  return all_reduce_scalar(control, us[static_cast<std::size_t>(calls / 2)], ReduceOp::max);
}

void run(int calls) {
  const auto control = make_mpi_group(MPI_COMM_WORLD, {.timeout = std::chrono::seconds(20)});
  setenv("NCCL_HOSTID", std::to_string(control->rank()).c_str(), 1);
  const Tensor t = Tensor::zeros({1}, DType::f32, gpu);
  double first = 0;
  const auto measure = [&](const char* side, const auto& call) {
    for (int i = 0; i < 20; ++i) call();
    const double us = median_us(*control, calls, call);
    if (first == 0) first = us;
    if (control->rank() == 0) std::printf("%-36s %8.2f us  %+8.2f\n", side, us, us - first);
  };
  for (const bool blocking : {true, false}) {
    RawComm comm(*control, blocking);
    measure(blocking ? "NCCL, blocking" : "NCCL, not blocking", [&] { comm.all_reduce(t); });
  }
  for (const auto& [side, contract] : {std::pair{"nccl group, contract off", Contract::off},
                                       {"nccl group, contract late", Contract::late},
                                       {"nccl group, contract hash", Contract::hash}}) {
    const GroupOptions options{.timeout = std::chrono::seconds(20), .contract = contract};
    const auto group = make_nccl_group(make_mpi_group(MPI_COMM_WORLD, options), gpu, options);
    measure(side, [&] { group->all_reduce(t, ReduceOp::sum).wait(); });
    group->close();
  }
  control->close();
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) {
  int provided = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  int code = 0;
  try {
    lockstep::run(argc > 1 ? std::max(std::atoi(argv[1]), 1) : 2000);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "nccl_launch_bench: %s\n", error.what());
    code = 1;
  }
  MPI_Finalize();
  return code;
}
