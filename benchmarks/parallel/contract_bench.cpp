// The contract check's cost in a training step: the ConvNet on random numbers of Fashion-MNIST's
// shape, forward, loss, backward with its all-reduces, SGD; the batch is divided over the ranks.
//   mpiexec -n 2 -bind-to core build/release/benchmarks/parallel/parallel.contract_bench
#include <mpi.h>

#include <lockstep/autograd/functional.hpp>
#include <lockstep/comm/mpi_group.hpp>
#include <lockstep/nn/models/convnet.hpp>
#include <lockstep/nn/random.hpp>
#include <lockstep/optim/sgd.hpp>
#include <lockstep/parallel/distributed_data_parallel.hpp>
#include <lockstep/tensor/math_libraries.hpp>
#include <random>
#include <support/mpi_bench.hpp>
#include <support/sides.hpp>
#include <vector>

namespace lockstep {
namespace {

class Training {
 public:
  Training(Contract contract, std::int64_t batch)
      : group_(make_mpi_group(MPI_COMM_WORLD, {.contract = contract})),
        model_(std::make_unique<DistributedDataParallel>(nn::convnet({1, 28, 28}, 10), group_)),
        sgd_(model_->module().named_parameters(), {.lr = 0.01, .momentum = 0.5}),
        images_(Tensor::empty({batch, 1, 28, 28})),
        labels_(Tensor::empty({batch}, DType::i64)) {
    std::mt19937 random(1);  // NOLINT(cert-msc51-cpp): the same numbers in every run
    std::vector<float> pixels(static_cast<std::size_t>(images_.numel()));
    for (float& x : pixels) x = std::normal_distribution<float>()(random);
    images_.copy_from_host(std::span<const float>(pixels));
    std::vector<std::int64_t> classes(static_cast<std::size_t>(batch));
    for (std::int64_t& c : classes) c = static_cast<std::int64_t>(random() % 10);
    labels_.copy_from_host(std::span<const std::int64_t>(classes));
  }
  ~Training() {
    model_.reset();
    group_->close();
  }

  void step() {
    model_->zero_grad();
    const Variable loss = nll_loss(model_->forward(Variable(images_)), labels_);
    model_->backward(loss, 1.0 / group_->size());
    sgd_.step();
  }

 private:
  std::shared_ptr<ProcessGroup> group_;
  std::unique_ptr<DistributedDataParallel> model_;
  optim::SGD sgd_;
  Tensor images_, labels_;
};

void training_step(benchmark::State& state) {
  set_math_threads(1);
  nn::manual_seed(1234);
  const std::int64_t share = state.range(0) / bench::world().size();
  Training off(Contract::off, share), hash(Contract::hash, share), full(Contract::full, share);
  for (auto _ : state) {
    bench::Sides sides;
    sides.add("off", [&] { off.step(); });
    sides.add("hash", [&] { hash.step(); });
    sides.add("full", [&] { full.step(); });
    sides.run(5);
    sides.report(state);
    state.counters["hash/off"] = sides.median_us("hash") / sides.median_us("off");
    state.counters["full/off"] = sides.median_us("full") / sides.median_us("off");
  }
}

BENCHMARK(training_step)
    ->UseManualTime()
    ->Iterations(1)
    ->Unit(benchmark::kMicrosecond)
    ->ArgName("batch")
    ->Arg(128);

}  // namespace
}  // namespace lockstep
