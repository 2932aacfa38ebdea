#include <lockstep/nn/layers/recurrent.hpp>

#include <array>
#include <cmath>
#include <string>

#include <lockstep/autograd/functional/activation.hpp>
#include <lockstep/autograd/functional/shape.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/nn/expect.hpp>
#include <lockstep/nn/init.hpp>

namespace lockstep::nn {
namespace {

/// Row i of a state [rows, N, H]; undefined if the state is.
Variable state_of(const Variable& states, std::int64_t rows, std::int64_t i) {
  if (!states.defined() || rows == 1) {
    return states.defined() ? reshape(states, {states.shape()[1], states.shape()[2]}) : states;
  }
  return reshape(narrow(states, 0, i, 1), {states.shape()[1], states.shape()[2]});
}

/// The states of all layers and directions, [rows, N, H].
Variable joined(const std::vector<Variable>& states) {
  const Shape& one = states[0].shape();
  return reshape(states.size() == 1 ? states[0] : concat(states),
                 {static_cast<std::int64_t>(states.size()), one[0], one[1]});
}

}  // namespace

RecurrentLayer::RecurrentLayer(const char* name, RnnMode mode, std::int64_t input_size,
                               std::int64_t hidden_size, const RecurrentOptions& options)
    : name_(name), mode_(mode), hidden_size_(hidden_size), options_(options) {
  expect_positive(name, "input_size", input_size);
  expect_positive(name, "hidden_size", hidden_size);
  expect_positive(name, "num_layers", options.num_layers);
  if (!(options.dropout >= 0.0 && options.dropout < 1.0)) {
    throw InputError(std::string(name) + ": dropout must be at least 0 and below 1, not " +
                     std::to_string(options.dropout));
  }
  const double bound = 1.0 / std::sqrt(static_cast<double>(hidden_size));
  const std::int64_t gates = gates_of(mode) * hidden_size;
  const std::int64_t directions = options.bidirectional ? 2 : 1;
  for (std::int64_t layer = 0; layer < options.num_layers; ++layer) {
    const std::int64_t width = layer == 0 ? input_size : directions * hidden_size;
    for (std::int64_t direction = 0; direction < directions; ++direction) {
      const std::string suffix = "_l" + std::to_string(layer) + (direction == 1 ? "_reverse" : "");
      const auto parameter = [&](const char* what, const Shape& shape) {
        return register_parameter(what + suffix, uniform(shape, bound));
      };
      RecurrentWeights weights;
      weights.weight_ih = parameter("weight_ih", {gates, width});
      weights.weight_hh = parameter("weight_hh", {gates, hidden_size});
      if (options.bias) {
        weights.bias_ih = parameter("bias_ih", {gates});
        weights.bias_hh = parameter("bias_hh", {gates});
      }
      weights_.push_back(std::move(weights));
    }
  }
}

Variable RecurrentLayer::dropped(const Variable& x) {
  if (!is_training() || options_.dropout == 0.0) return x;
  // Samples come first, so that a sample's mask does not depend on the rank that computes it.
  return transpose(lockstep::dropout(transpose(x, 0, 1), options_.dropout, random_.next()), 0, 1);
}

RecurrentResult RecurrentLayer::run(const Variable& x, const Variable& h0, const Variable& c0,
                                    const Tensor& lengths) {
  const auto rows = static_cast<std::int64_t>(weights_.size());
  const std::int64_t directions = options_.bidirectional ? 2 : 1;
  if (x.shape().dims() != 3 || x.shape()[2] != weights_[0].weight_ih.shape()[1]) {
    throw ShapeError(
        std::string(name_) + " takes x " + (options_.batch_first ? "[N, T, " : "[T, N, ") +
        std::to_string(weights_[0].weight_ih.shape()[1]) + "], not " + describe(x.data()));
  }
  Variable sequence = options_.batch_first ? transpose(x, 0, 1) : x;
  const Shape state_shape{rows, sequence.shape()[1], hidden_size_};
  for (const Variable* state : {&h0, &c0}) {
    if (!state->defined() || state->shape() == state_shape) continue;
    throw ShapeError(std::string(name_) + " takes states " + to_string(state_shape) + ", not " +
                     describe(state->data()));
  }
  thread_local std::vector<Variable> h_n, c_n;  // reused: a step allocates nothing
  h_n.clear();
  c_n.clear();
  for (std::int64_t i = 0; i < rows; i += directions) {
    if (i > 0) sequence = dropped(sequence);
    std::array<Variable, 2> outputs;
    for (std::int64_t direction = 0; direction < directions; ++direction) {
      const std::int64_t row = i + direction;
      auto result =
          recurrent_layer(mode_, sequence, state_of(h0, rows, row), state_of(c0, rows, row),
                          weights_[static_cast<std::size_t>(row)], direction == 1, lengths);
      outputs[static_cast<std::size_t>(direction)] = std::move(result.output);
      h_n.push_back(std::move(result.h_n));
      if (result.c_n.defined()) c_n.push_back(std::move(result.c_n));
    }
    sequence = directions == 1 ? outputs[0] : concat(outputs, 2);
  }
  RecurrentResult result{options_.batch_first ? transpose(sequence, 0, 1) : sequence, joined(h_n),
                         c_n.empty() ? Variable() : joined(c_n)};
  h_n.clear();
  c_n.clear();
  return result;
}

Variable RecurrentLayer::forward(const Variable& x) { return run(x, {}, {}, {}).output; }

RNN::RNN(std::int64_t input_size, std::int64_t hidden_size, const RecurrentOptions& options,
         Nonlinearity nonlinearity)
    : RecurrentLayer("RNN",
                     nonlinearity == Nonlinearity::tanh ? RnnMode::rnn_tanh : RnnMode::rnn_relu,
                     input_size, hidden_size, options) {}

GRU::GRU(std::int64_t input_size, std::int64_t hidden_size, const RecurrentOptions& options)
    : RecurrentLayer("GRU", RnnMode::gru, input_size, hidden_size, options) {}

LSTM::LSTM(std::int64_t input_size, std::int64_t hidden_size, const RecurrentOptions& options)
    : RecurrentLayer("LSTM", RnnMode::lstm, input_size, hidden_size, options) {}

}  // namespace lockstep::nn
