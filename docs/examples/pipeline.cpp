#include "gradients.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <lockstep/autograd/functional.hpp>
#include <lockstep/base/clock.hpp>
#include <lockstep/comm/mpi_group.hpp>
#include <lockstep/data/synthetic_dataset.hpp>
#include <lockstep/nn/models/resnet.hpp>
#include <lockstep/nn/random.hpp>
#include <lockstep/optim/sgd.hpp>
#include <lockstep/rpc/distributed_optimizer.hpp>
#include <lockstep/rpc/rpc.hpp>
#include <lockstep/tensor/math_libraries.hpp>
#include <memory>
#include <mutex>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

using namespace lockstep;

// A ResNet-18 is cut in two: ranks 1 and 2 have its halves, rank 0 feeds them. A batch goes through
// in micro-batches, so that one half works on one while the other works on the next.
constexpr double learning_rate = 0.02, momentum = 0.9;

std::shared_ptr<nn::Sequential> make_model(std::int64_t pixels) {
  nn::manual_seed(1);
  return nn::resnet18({3, pixels, pixels}, 10);
}

class Half {
 public:
  Half(bool is_first, std::int64_t pixels) {
    constexpr std::size_t cut = 5;  // behind conv1, bn1, relu, layer1, layer2
    const auto model = make_model(pixels);
    for (std::size_t i = is_first ? 0 : cut; i < (is_first ? cut : model->children().size()); ++i)
      layers_.push_back(model->children()[i].first, model->children()[i].second);
  }

  Variable forward(const Variable& images) {
    const std::lock_guard lock(mutex_);  // micro-batches come at once
    return layers_.forward(images);
  }
  /// Of what the other half makes, straight from there.
  Variable forward_from(const rpc::RRef<Variable>& middle) { return forward(middle.to_here()); }

  std::vector<rpc::RRef<Variable>> parameters() const { return rpc::parameter_rrefs(layers_); }
  std::vector<Tensor> gradients(std::uint64_t context) const {
    return gradients_of(layers_.parameters(), context);
  }

 private:
  nn::Sequential layers_;
  std::mutex mutex_;
};
std::unique_ptr<Half> make_half(bool is_first, std::int64_t pixels) {
  return std::make_unique<Half>(is_first, pixels);
}
Variable forward_in(const rpc::RRef<Half>& half, const Variable& images) {
  return half.local_value().forward(images);
}

LOCKSTEP_RPC(make_half);
LOCKSTEP_RPC(forward_in);
LOCKSTEP_RPC(Half::forward_from);
LOCKSTEP_RPC(Half::parameters);
LOCKSTEP_RPC(Half::gradients);

template <class T>
std::vector<T> joined(std::vector<T> a, const std::vector<T>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

class Pipeline {
 public:
  explicit Pipeline(std::int64_t pixels)
      : first_(rpc::remote(1, make_half, true, pixels)),
        second_(rpc::remote(2, make_half, false, pixels)) {}

  /// Within a context.
  [[nodiscard]] Variable forward(const Tensor& images, std::int64_t split_size) const {
    std::vector<rpc::Future<Variable>> running;
    for (std::int64_t at = 0; at < images.size(0); at += split_size) {
      const Tensor micro = images.slice(at, std::min(at + split_size, images.size(0)));
      const auto middle = rpc::remote(1, forward_in, first_, Variable(micro));  // returns at once
      running.push_back(second_.rpc_async(&Half::forward_from, middle));
    }
    std::vector<Variable> outputs;
    for (const auto& each : running) outputs.push_back(each.wait());
    return concat(outputs);
  }
  [[nodiscard]] auto parameters() const {
    return joined(first_.rpc_sync(&Half::parameters), second_.rpc_sync(&Half::parameters));
  }
  [[nodiscard]] auto gradients(std::uint64_t context) const {
    return joined(first_.rpc_sync(&Half::gradients, context),
                  second_.rpc_sync(&Half::gradients, context));
  }

 private:
  rpc::RRef<Half> first_, second_;
};

/// The same gradients in one process: of the whole model, one micro-batch after the other, since
/// BatchNorm sees no more than one.
std::vector<Tensor> gradients_here(nn::Module& model, const Batch& batch, std::int64_t split_size) {
  model.zero_grad();
  for (std::int64_t at = 0; at < batch.size(); at += split_size) {
    const Batch micro = batch.slice(at, std::min(at + split_size, batch.size()));
    const Variable loss = nll_loss(model.forward(Variable(micro.inputs())), micro.targets());
    loss.backward(static_cast<double>(micro.size()) / static_cast<double>(batch.size()));
  }
  return gradients_of(model.parameters());
}

struct Sizes {
  std::int64_t batch = 32, steps = 10, pixels = 32, batches = 8;
};

void run(const Sizes& sizes) {
  const auto images = make_synthetic(
      {.samples = sizes.batches * sizes.batch, .image_size = sizes.pixels, .channels = 3},
      Split::train);
  Batch batch(*images, sizes.batch);
  std::vector<std::int64_t> order(static_cast<std::size_t>(sizes.batch));
  const auto load = [&](std::int64_t step) {
    std::iota(order.begin(), order.end(), step % sizes.batches * sizes.batch);
    images->load(order, batch);
  };
  const Pipeline pipeline(sizes.pixels);
  rpc::DistributedOptimizer optimizer(
      {.kind = optim::SgdOptions{.lr = learning_rate, .momentum = momentum}},
      pipeline.parameters());
  const auto step = [&](std::int64_t number, std::int64_t split_size) {
    load(number);
    const dist_autograd::Context context;
    const Variable loss = nll_loss(pipeline.forward(batch.inputs(), split_size), batch.targets());
    dist_autograd::backward(context, {loss});
    optimizer.step(context);
    return loss.data().item();
  };

  const auto model = make_model(sizes.pixels);
  load(0);
  for (const std::int64_t parts : {1, 2, 4, 8}) {
    const std::int64_t split_size = (sizes.batch + parts - 1) / parts;
    const dist_autograd::Context context;
    dist_autograd::backward(
        context, {nll_loss(pipeline.forward(batch.inputs(), split_size), batch.targets())});
    std::printf("split size %3lld  gradients differ from the uncut model's by %.1g\n",
                static_cast<long long>(split_size),
                relative_difference(pipeline.gradients(context.id()),
                                    gradients_here(*model, batch, split_size)));
  }

  const auto measure = [&](const auto& one_step) {
    double loss = one_step(0);
    const auto start = Clock::now();
    for (std::int64_t number = 1; number <= sizes.steps; ++number) loss = one_step(number);
    const double rate = static_cast<double>(sizes.steps * sizes.batch) / seconds_since(start);
    return std::pair(rate, loss);
  };
  optim::SGD sgd(model->named_parameters(), {.lr = learning_rate, .momentum = momentum});
  const auto [rate_here, loss_here] = measure([&](std::int64_t number) {
    load(number);
    sgd.zero_grad();
    const Variable loss = nll_loss(model->forward(Variable(batch.inputs())), batch.targets());
    loss.backward();
    sgd.step();
    return loss.data().item();
  });
  std::printf("uncut, one rank %6.1f images/s  loss %.3f\n", rate_here, loss_here);
  for (const std::int64_t parts : {1, 2, 4, 8}) {
    const std::int64_t split_size = (sizes.batch + parts - 1) / parts;
    const auto [rate, loss] =
        measure([&](std::int64_t number) { return step(number, split_size); });
    std::printf("split size %3lld  %6.1f images/s  loss %.3f\n", static_cast<long long>(split_size),
                rate, loss);
  }
}

int main(int argc, char** argv) {
  const MpiSession session(argc, argv);
  const auto group = make_mpi_group(MPI_COMM_WORLD);
  set_math_threads(1);
  const auto argument = [&](int i, std::int64_t otherwise) {
    return i < argc ? std::atoll(argv[i]) : otherwise;
  };
  const Sizes sizes{.batch = argument(1, 32), .steps = argument(2, 10), .pixels = argument(3, 32)};
  if (group->size() != 3 || std::min({sizes.batch, sizes.steps, sizes.pixels}) < 1) {
    if (group->rank() == 0)
      std::puts("start 3 ranks: pipeline [BATCH [STEPS [PIXELS]]], numbers from 1 on");
    group->close();
    return 2;
  }
  // A micro-batch that waits for the one before it holds a thread.
  rpc::init("worker" + std::to_string(group->rank()), *group,
            {.timeout = std::chrono::minutes(10), .workers = 16});
  if (group->rank() == 0) run(sizes);
  rpc::shutdown();
  group->close();
}
