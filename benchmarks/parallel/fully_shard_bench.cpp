// A step of a small GPT-2 (6 blocks, 384 wide, 256 tokens of context, 4 windows a rank, AdamW) by
// DistributedDataParallel and with ZeRO-1, 2 and 3, one after the other in one process. The model
// is that of benchmarks/pytorch/gpt.py.
//   mpiexec -n 2 -bind-to core build/release/benchmarks/parallel/parallel.fully_shard_bench
#include <mpi.h>

#include <lockstep/comm/mpi_group.hpp>
#include <lockstep/nn/models/gpt.hpp>
#include <lockstep/nn/random.hpp>
#include <lockstep/optim/adam.hpp>
#include <lockstep/parallel/distributed_data_parallel.hpp>
#include <lockstep/parallel/sharded/fully_shard.hpp>
#include <lockstep/parallel/sharded/zero_redundancy_optimizer.hpp>
#include <lockstep/tensor/math_libraries.hpp>
#include <memory>
#include <random>
#include <support/mpi_bench.hpp>
#include <support/sides.hpp>
#include <utility>
#include <vector>

namespace lockstep {
namespace {

constexpr std::int64_t vocabulary = 96, context = 256, windows = 4;

Tensor random_tokens() {
  std::mt19937 random(1);  // NOLINT(cert-msc51-cpp): the same numbers in every run
  std::vector<std::int64_t> tokens(windows * context);
  for (std::int64_t& token : tokens) token = static_cast<std::int64_t>(random() % vocabulary);
  return Tensor::from(tokens, {windows, context});
}

std::shared_ptr<nn::Gpt> model() {
  nn::manual_seed(1234);
  return std::make_shared<nn::Gpt>(nn::GptOptions{
      .vocabulary = vocabulary, .context = context, .width = 384, .depth = 6, .heads = 6});
}

std::unique_ptr<optim::Optimizer> adamw(std::vector<nn::NamedParameter> parameters) {
  return std::make_unique<optim::AdamW>(std::move(parameters), optim::AdamWOptions{.lr = 1e-4});
}

/// forward(run) and backward(loss, weight) of DistributedDataParallel or FullyShardedDataParallel.
template <class Parallel>
void forward_and_backward(Parallel& parallel, nn::Gpt& gpt, const Tensor& tokens) {
  parallel.zero_grad();
  const Variable loss =
      parallel.forward([&](nn::Module&) { return gpt.loss(Variable(tokens), tokens); });
  parallel.backward(loss, 1.0 / parallel.group().size());
}

void a_step(benchmark::State& state) {
  set_math_threads(1);
  const auto group = make_mpi_group(MPI_COMM_WORLD);
  const Tensor tokens = random_tokens();
  const auto of_ddp = model(), of_zero_1 = model(), of_zero_2 = model(), of_zero_3 = model();
  DistributedDataParallel ddp(of_ddp, group), ddp_of_zero_1(of_zero_1, group);
  FullyShardedDataParallel zero_2(of_zero_2, group, {.reshard_after_forward = false});
  FullyShardedDataParallel zero_3(of_zero_3, group);
  const auto whole = adamw(of_ddp->named_parameters()), of_2 = adamw(zero_2.named_parameters()),
             of_3 = adamw(zero_3.named_parameters());
  ZeroRedundancyOptimizer zero_1(ddp_of_zero_1, adamw);
  for (auto _ : state) {
    bench::Sides sides;
    sides.add("ddp", [&] {
      forward_and_backward(ddp, *of_ddp, tokens);
      whole->step();
    });
    sides.add("zero_1", [&] {
      forward_and_backward(ddp_of_zero_1, *of_zero_1, tokens);
      zero_1.step();
    });
    sides.add("zero_2", [&] {
      forward_and_backward(zero_2, *of_zero_2, tokens);
      of_2->step();
    });
    sides.add("zero_3", [&] {
      forward_and_backward(zero_3, *of_zero_3, tokens);
      of_3->step();
    });
    sides.run(3);
    sides.report(state);
    for (const char* side : {"zero_1", "zero_2", "zero_3"}) {
      state.counters[std::string(side) + "/ddp"] = sides.median_us(side) / sides.median_us("ddp");
    }
  }
  group->close();
}

BENCHMARK(a_step)->Iterations(1)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace lockstep
