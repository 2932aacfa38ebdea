#include <lockstep/autograd/functional/recurrent.hpp>

#include <array>

#include <lockstep/autograd/functional/shape.hpp>

#include "operations.hpp"

namespace lockstep::test {
namespace {

/// All outputs in one, of x, h0, c0 (LSTM only), weight_ih, weight_hh and the biases.
template <RnnMode mode, bool reverse, bool unequal = false>
Variable everything(const Inputs& v) {
  thread_local const Tensor lengths = Tensor::from(std::vector<std::int64_t>{2, 5, 1}, {3});
  const bool lstm = mode == RnnMode::lstm;
  const std::size_t w = lstm ? 3 : 2;
  const auto y =
      recurrent_layer(mode, v[0], v[1], lstm ? v[2] : Variable(),
                      {v[w], v[w + 1], v[w + 2], v[w + 3]}, reverse, unequal ? lengths : Tensor());
  const auto flat = [](const Variable& x) { return reshape(x, {x.data().numel()}); };
  if (!lstm) return concat(std::array{flat(y.output), flat(y.h_n)});
  return concat(std::array{flat(y.output), flat(y.h_n), flat(y.c_n)});
}

}  // namespace

Operations recurrent_operations() {
  return {{"recurrent_tanh",
           {{5, 3, 4}, {3, 6}, {6, 4}, {6, 6}, {6}, {6}},
           everything<RnnMode::rnn_tanh, false>},
          {"recurrent_gru",
           {{5, 3, 4}, {3, 6}, {18, 4}, {18, 6}, {18}, {18}},
           everything<RnnMode::gru, true>},
          {"recurrent_gru_of_unequal_lengths",
           {{5, 3, 4}, {3, 6}, {18, 4}, {18, 6}, {18}, {18}},
           everything<RnnMode::gru, true, true>},
          {"recurrent_lstm_of_unequal_lengths",
           {{5, 3, 4}, {3, 20}, {3, 20}, {80, 4}, {80, 20}, {80}, {80}},
           everything<RnnMode::lstm, false, true>},
          {"recurrent_lstm",
           {{5, 3, 4}, {3, 20}, {3, 20}, {80, 4}, {80, 20}, {80}, {80}},
           everything<RnnMode::lstm, false>}};
}

}  // namespace lockstep::test
