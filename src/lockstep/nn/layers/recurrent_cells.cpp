#include <cmath>
#include <string>

#include <lockstep/autograd/functional/shape.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/nn/expect.hpp>
#include <lockstep/nn/init.hpp>
#include <lockstep/nn/layers/recurrent.hpp>

namespace lockstep::nn {

RecurrentCell::RecurrentCell(const char* name, RnnMode mode, std::int64_t input_size,
                             std::int64_t hidden_size, bool bias)
    : name_(name), mode_(mode) {
  expect_positive(name, "input_size", input_size);
  expect_positive(name, "hidden_size", hidden_size);
  const double bound = 1.0 / std::sqrt(static_cast<double>(hidden_size));
  const std::int64_t gates = gates_of(mode) * hidden_size;
  const auto parameter = [&](const char* what, const Shape& shape) {
    return register_parameter(what, uniform(shape, bound));
  };
  weights_.weight_ih = parameter("weight_ih", {gates, input_size});
  weights_.weight_hh = parameter("weight_hh", {gates, hidden_size});
  if (!bias) return;
  weights_.bias_ih = parameter("bias_ih", {gates});
  weights_.bias_hh = parameter("bias_hh", {gates});
}

RecurrentOutput RecurrentCell::run(const Variable& x, const Variable& h, const Variable& c) const {
  if (x.shape().dims() != 2) {
    throw ShapeError(std::string(name_) + " takes x [N, I], not " + describe(x.data()));
  }
  return recurrent_layer(mode_, reshape(x, {1, x.shape()[0], x.shape()[1]}), h, c, weights_);
}

Variable RecurrentCell::forward(const Variable& x) { return run(x, {}, {}).h_n; }

RNNCell::RNNCell(std::int64_t input_size, std::int64_t hidden_size, bool bias,
                 Nonlinearity nonlinearity)
    : RecurrentCell("RNNCell",
                    nonlinearity == Nonlinearity::tanh ? RnnMode::rnn_tanh : RnnMode::rnn_relu,
                    input_size, hidden_size, bias) {}

GRUCell::GRUCell(std::int64_t input_size, std::int64_t hidden_size, bool bias)
    : RecurrentCell("GRUCell", RnnMode::gru, input_size, hidden_size, bias) {}

LSTMCell::LSTMCell(std::int64_t input_size, std::int64_t hidden_size, bool bias)
    : RecurrentCell("LSTMCell", RnnMode::lstm, input_size, hidden_size, bias) {}

LSTMState LSTMCell::forward(const Variable& x, const LSTMState& state) {
  auto result = run(x, state.h, state.c);
  return {std::move(result.h_n), std::move(result.c_n)};
}

}  // namespace lockstep::nn
