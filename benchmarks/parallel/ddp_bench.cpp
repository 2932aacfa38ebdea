// The cost of DistributedDataParallel itself: a step of a single rank beside the same step without
// it, and constructing one with 10,000 parameters, for 1 rank and as one of 4,096.
//   mpiexec -n 1 -bind-to core build/release/benchmarks/parallel/parallel.ddp_bench
#include <mpi.h>

#include <lockstep/autograd/functional.hpp>
#include <lockstep/comm/fake_group.hpp>
#include <lockstep/comm/mpi_group.hpp>
#include <lockstep/nn/models/convnet.hpp>
#include <lockstep/nn/models/mlp.hpp>
#include <lockstep/nn/random.hpp>
#include <lockstep/optim/sgd.hpp>
#include <lockstep/parallel/distributed_data_parallel.hpp>
#include <lockstep/tensor/math_libraries.hpp>
#include <memory>
#include <random>
#include <support/mpi_bench.hpp>
#include <support/sides.hpp>
#include <vector>

namespace lockstep {
namespace {

/// 128 random images per step.
struct Images {
  Images() : pixels(Tensor::empty({128, 1, 28, 28})), labels(Tensor::empty({128}, DType::i64)) {
    std::mt19937 random(1);  // NOLINT(cert-msc51-cpp): the same numbers in every run
    std::vector<float> values(static_cast<std::size_t>(pixels.numel()));
    for (float& x : values) x = std::normal_distribution<float>()(random);
    pixels.copy_from_host(std::span<const float>(values));
    std::vector<std::int64_t> classes(static_cast<std::size_t>(labels.numel()));
    for (std::int64_t& c : classes) c = static_cast<std::int64_t>(random() % 10);
    labels.copy_from_host(std::span<const std::int64_t>(classes));
  }
  Tensor pixels, labels;
};

std::shared_ptr<nn::Module> model_of(std::int64_t kind) {
  nn::manual_seed(1234);
  if (kind == 0) return nn::convnet({1, 28, 28}, 10);
  return nn::mlp({1, 28, 28}, 10, {64, 64, 64});
}

void a_lone_ranks_step(benchmark::State& state) {
  set_math_threads(1);
  const Images images;
  const auto group = make_mpi_group(MPI_COMM_WORLD);
  const auto alone = model_of(state.range(0));
  optim::SGD alone_sgd(alone->named_parameters(), {.lr = 0.01, .momentum = 0.5});
  DistributedDataParallel ddp(model_of(state.range(0)), group);
  optim::SGD ddp_sgd(ddp.module().named_parameters(), {.lr = 0.01, .momentum = 0.5});
  for (auto _ : state) {
    bench::Sides sides;
    sides.add("alone", [&] {
      alone_sgd.zero_grad();
      nll_loss(alone->forward(Variable(images.pixels)), images.labels).backward();
      alone_sgd.step();
    });
    sides.add("ddp", [&] {
      ddp.zero_grad();
      ddp.backward(nll_loss(ddp.forward(Variable(images.pixels)), images.labels), 1.0);
      ddp_sgd.step();
    });
    sides.add("loop", [&] {
      ddp.zero_grad();
      nll_loss(ddp.forward(Variable(images.pixels)), images.labels).backward();
      ddp_sgd.step();
    });
    sides.run(5);
    sides.report(state);
    state.counters["loop/ddp"] = sides.median_us("loop") / sides.median_us("ddp");
    state.counters["ddp/alone"] = sides.median_us("ddp") / sides.median_us("alone");
  }
  group->close();
}

struct ManyParameters : nn::Module {
  ManyParameters() {
    for (int i = 0; i < 10'000; ++i)
      register_parameter("p" + std::to_string(i), Tensor::zeros({i % 2 == 0 ? 4096 : 64}));
  }
  Variable forward(const Variable& x) override { return x; }
};

void construction(benchmark::State& state) {
  const auto group = std::make_shared<FakeGroup>(static_cast<int>(state.range(0)), 0);
  const auto model = std::make_shared<ManyParameters>();
  std::vector<Tensor> tensors;
  for (const Variable& parameter : model->parameters()) tensors.push_back(parameter.data());
  for (auto _ : state) {
    bench::Sides sides;
    sides.add("plan", [&] { benchmark::DoNotOptimize(plan_buckets(tensors, {})); });
    sides.add("ddp", [&] { DistributedDataParallel(model, group); });
    sides.run(5);
    sides.report(state);
  }
}

BENCHMARK(a_lone_ranks_step)
    ->UseManualTime()
    ->Iterations(1)
    ->Unit(benchmark::kMicrosecond)
    ->ArgName("model")
    ->Arg(0)
    ->Arg(1);
BENCHMARK(construction)
    ->UseManualTime()
    ->Iterations(1)
    ->Unit(benchmark::kMicrosecond)
    ->ArgName("ranks")
    ->Arg(1)
    ->Arg(4096);

}  // namespace
}  // namespace lockstep
