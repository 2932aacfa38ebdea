// ResNet-18 with statistics over the samples of all ranks: its training on several ranks is that of
// one rank.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include <lockstep/autograd/functional.hpp>
#include <lockstep/comm/threads_group.hpp>
#include <lockstep/nn/dtype_guard.hpp>
#include <lockstep/nn/models/resnet.hpp>
#include <lockstep/nn/random.hpp>
#include <lockstep/optim/sgd.hpp>
#include <lockstep/parallel/distributed_data_parallel.hpp>
#include <lockstep/tensor/math_libraries.hpp>

namespace lockstep::train {
namespace {

/// Every number of a model's state.
std::vector<double> numbers_of(const StateDict& state) {
  std::vector<double> all;
  for (const auto& entry : state) {
    const auto part = entry.tensor.to(DType::f64).to_vector<double>();
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

/// NaN if one of them is.
double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() != b.size()) return std::numeric_limits<double>::infinity();
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double difference = std::abs(a[i] - b[i]);
    if (!(difference <= largest)) largest = difference;
  }
  return largest;
}

using OfRanks = std::vector<std::vector<double>>;

/// Each rank's state after a step of ResNet-18 in double precision with five samples; the last of
/// several ranks has none.
OfRanks step_of_resnet(int ranks) {
  std::vector<float> pixels(5 * 8 * 8);
  for (std::size_t i = 0; i < pixels.size(); ++i) {
    pixels[i] = std::sin(1.7F * static_cast<float>(i));
  }
  const Tensor x = Tensor::from(pixels, {5, 1, 8, 8}).to(DType::f64);
  const Tensor target = Tensor::from(std::vector<std::int64_t>{0, 3, 2, 1, 0}, {5});
  OfRanks states(static_cast<std::size_t>(ranks));
  run_ranks_as_threads(ranks, [&](ProcessGroup& group) {
    set_math_threads(1);
    const nn::DTypeGuard double_precision(DType::f64);
    nn::manual_seed(3);
    const auto model = nn::resnet18({1, 8, 8}, 4);
    DistributedDataParallel ddp(model, {std::shared_ptr<void>(), &group},
                                {.sync_batch_norm = ranks > 1});
    optim::SGD sgd(model->named_parameters(), {.lr = 0.05});
    const std::int64_t sharers = std::max(ranks - 1, 1);
    const auto first = [&](int rank) { return std::min<std::int64_t>(5 * rank / sharers, 5); };
    const std::int64_t begin = first(group.rank()), end = first(group.rank() + 1);
    const Variable output = ddp.forward(Variable(x.slice(begin, end)));
    ddp.backward(begin < end ? nll_loss(output, target.slice(begin, end)) : sum(output),
                 static_cast<double>(end - begin) / 5.0);
    sgd.step();
    states[static_cast<std::size_t>(group.rank())] = numbers_of(model->state_dict());
  });
  return states;
}

TEST(SyncBatchNorm, StepOfResNetOnThreeRanksIsThatOfOne) {
  const OfRanks whole = step_of_resnet(1), shared = step_of_resnet(3);
  for (const auto& state : shared) {
    EXPECT_LE(largest_difference(state, whole[0]), 1e-11);
    EXPECT_EQ(state, shared[0]);
  }
}

}  // namespace
}  // namespace lockstep::train
