// A training step's forward and backward through a Linear(256, 256) on another rank, batch 32: "one
// remote layer" for users of torch.distributed.rpc.
//   mpiexec -n 2 build/release/benchmarks/rpc/rpc.autograd_bench
#include <mpi.h>

#include <algorithm>
#include <lockstep/autograd/functional.hpp>
#include <lockstep/base/clock.hpp>
#include <lockstep/comm/process_group.hpp>
#include <lockstep/nn/layers/linear.hpp>
#include <lockstep/rpc/dist_autograd.hpp>
#include <lockstep/rpc/rpc.hpp>
#include <lockstep/tensor/math_libraries.hpp>
#include <string>
#include <support/mpi_bench.hpp>
#include <vector>

namespace lockstep {
namespace {

std::shared_ptr<nn::Linear> make_layer() { return std::make_shared<nn::Linear>(256, 256); }
LOCKSTEP_RPC(make_layer);
LOCKSTEP_RPC_AS("Linear::forward", nn::Linear::forward);

template <class Step>
double median_us(const Step& step) {
  std::vector<double> us;
  for (int i = 0; i < 400; ++i) {
    const auto start = Clock::now();
    step();
    if (i >= 100) us.push_back(1e6 * seconds_since(start));
  }
  std::nth_element(us.begin(), us.begin() + 150, us.end());
  return us[150];
}

void remote_layer(benchmark::State& state) {
  set_math_threads(1);
  for (auto _ : state) {
    double here = 0, there = 0;
    rpc::init("worker" + std::to_string(bench::world().rank()), bench::world());
    if (bench::world().rank() == 0) {
      const Variable x(Tensor::full({32, 256}, 1.0), true);
      const auto local = make_layer();
      here = median_us([&] { sum(local->forward(x)).backward(); });
      const auto layer = rpc::remote(bench::world().size() - 1, make_layer);
      there = median_us([&] {
        const dist_autograd::Context context;
        dist_autograd::backward(context, {sum(layer.rpc_sync(&nn::Linear::forward, x))});
      });
    }
    rpc::shutdown();
    state.counters["local_us"] = all_reduce_scalar(bench::world(), here, ReduceOp::max);
    state.counters["remote_us"] = all_reduce_scalar(bench::world(), there, ReduceOp::max);
    state.SetIterationTime(1e-6 * state.counters["remote_us"]);
  }
}
BENCHMARK(remote_layer)->UseManualTime()->Iterations(1)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace lockstep
