// Backward against central differences in double.
#include <gtest/gtest.h>

#include <array>

#include <lockstep/autograd/functional/activation.hpp>
#include <lockstep/autograd/functional/arithmetic.hpp>
#include <lockstep/autograd/functional/recurrent.hpp>
#include <lockstep/autograd/functional/shape.hpp>

#include "gradient_check.hpp"

namespace lockstep::test {
namespace {

struct Sizes {
  std::int64_t steps, batch, input, hidden;
};

/// x, h0, c0, weights and biases.
std::vector<Tensor> operands(RnnMode mode, const Sizes& n) {
  const std::int64_t width = gates_of(mode) * n.hidden;
  return {random_tensor({n.steps, n.batch, n.input}, 1),
          random_tensor({n.batch, n.hidden}, 2),
          random_tensor({n.batch, n.hidden}, 3),
          random_tensor({width, n.input}, 4),
          random_tensor({width, n.hidden}, 5),
          random_tensor({width}, 6),
          random_tensor({width}, 7)};
}

Variable flat(const Variable& x) { return reshape(x, {x.data().numel()}); }

/// Which outputs are used: 1 the sequence, 2 h_n, 4 c_n.
void check_recurrent(RnnMode mode, const Sizes& n, bool reverse, int used,
                     const Tensor& lengths = {}) {
  SCOPED_TRACE(std::to_string(static_cast<int>(mode)) + (reverse ? " reverse " : " ") +
               std::to_string(used));
  const bool lstm = mode == RnnMode::lstm;
  auto inputs = operands(mode, n);
  if (!lstm) inputs.erase(inputs.begin() + 2);
  expect_gradients(
      [&](const std::vector<Variable>& v) {
        const std::size_t w = lstm ? 3 : 2;
        const auto y = recurrent_layer(mode, v[0], v[1], lstm ? v[2] : Variable(),
                                       {v[w], v[w + 1], v[w + 2], v[w + 3]}, reverse, lengths);
        std::vector<Variable> parts;
        if (used & 1) parts.push_back(flat(y.output));
        if (used & 2) parts.push_back(flat(y.h_n));
        if (used & 4) parts.push_back(flat(y.c_n));
        return concat(parts);
      },
      inputs);
}

TEST(RecurrentGradient, AgreesWithCentralDifferencesWhicheverOutputsAreUsed) {
  const Sizes sizes{.steps = 4, .batch = 2, .input = 3, .hidden = 5};
  for (const RnnMode mode : {RnnMode::rnn_tanh, RnnMode::rnn_relu, RnnMode::gru, RnnMode::lstm}) {
    for (const bool reverse : {false, true}) {
      for (const int used : {1, 2, 3}) check_recurrent(mode, sizes, reverse, used);
    }
  }
  for (const int used : {4, 5, 6, 7}) check_recurrent(RnnMode::lstm, sizes, false, used);
}

TEST(RecurrentGradient, AgreesForSequencesOfUnequalLengths) {
  const Sizes sizes{.steps = 4, .batch = 3, .input = 2, .hidden = 3};
  const Tensor lengths = Tensor::from(std::vector<std::int64_t>{2, 4, 1}, {3});
  for (const RnnMode mode : {RnnMode::rnn_tanh, RnnMode::rnn_relu, RnnMode::gru, RnnMode::lstm}) {
    for (const bool reverse : {false, true}) {
      for (const int used : {1, 2, 3}) check_recurrent(mode, sizes, reverse, used, lengths);
    }
  }
  for (const int used : {4, 7}) check_recurrent(RnnMode::lstm, sizes, true, used, lengths);
}

TEST(RecurrentGradient, AgreesForOneStepAndForOneUnit) {
  for (const RnnMode mode : {RnnMode::rnn_tanh, RnnMode::gru, RnnMode::lstm}) {
    check_recurrent(mode, {.steps = 1, .batch = 3, .input = 2, .hidden = 4}, false, 3);
    check_recurrent(mode, {.steps = 3, .batch = 1, .input = 1, .hidden = 1}, true, 3);
  }
}

TEST(RecurrentGradient, AgreesWhereStatesAndWeightsAreUsedTwice) {
  for (const RnnMode mode : {RnnMode::rnn_tanh, RnnMode::gru, RnnMode::lstm}) {
    auto inputs = operands(mode, {.steps = 3, .batch = 2, .input = 4, .hidden = 4});
    inputs.resize(4);
    expect_gradients(
        [&](const std::vector<Variable>& v) {
          const RecurrentWeights weights{v[3], v[3], {}, {}};  // no biases either
          const auto first = recurrent_layer(mode, v[0], v[1], v[2], weights);
          const auto second = recurrent_layer(mode, first.output, first.h_n, v[1], weights);
          return second.output * add(first.output, mul(sigmoid(v[2]), 0.1));
        },
        inputs);
    if (mode != RnnMode::lstm) continue;
    expect_gradients(
        [&](const std::vector<Variable>& v) {
          return recurrent_layer(mode, v[0], v[1], v[1], {v[2], v[2], {}, {}}).output;
        },
        {inputs[0], inputs[1], inputs[3]});
  }
}

}  // namespace
}  // namespace lockstep::test
