#pragma once
#include <cstdint>

#include <lockstep/tensor/tensor.hpp>

// One layer of a recurrent network in one direction, over a whole sequence. The input's product is
// the caller's: one product for all steps. f32 or f64. The host, and a simulated device with it,
// computes a step sample by sample; a GPU by one product and one kernel, which rounds differently.

namespace lockstep {

enum class RnnMode : std::uint8_t { rnn_tanh, rnn_relu, lstm, gru };

/// G: how many gates lie one below the other in a weight [G H, ...]. LSTM: input, forget, cell,
/// output; GRU: reset, update, new.
[[nodiscard]] std::int64_t gates_of(RnnMode mode) noexcept;

/// Sizes and direction of one recurrent layer.
struct RnnPlan {
  RnnMode mode = RnnMode::rnn_tanh;
  std::int64_t steps = 0, batch = 0, hidden = 0;  ///< T, N, H
  bool reverse = false;                           ///< from the last element to the first
  /// i64 [N] beside the other tensors, each in [1, T]: how many elements, the first ones, each
  /// sequence has. Its state stays as it is at the others, which nothing depends on. Undefined: all
  /// T.
  Tensor lengths;
};

/// Zeros in t[T, N, ...] behind the ends of sequences, which have lengths.
void zero_behind(const RnnPlan& plan, const Tensor& t);

/// behind[N] of bool: whether element t is behind the sequence's end.
void mark_behind(const RnnPlan& plan, std::int64_t t, const Tensor& behind);

/// The values that a forward saves.
struct RnnStates {
  Tensor h;            ///< [T + 1, N, H]: the initial state and that after each step, in x's order
  Tensor c;            ///< the same of the cells; LSTM only
  Tensor gates;        ///< [T, N, G H], after their functions; LSTM and GRU
  Tensor hidden_part;  ///< [T, N, H], W_hn h + b_hn; GRU only

  /// The states after each step, [T, N, H], and before it; the state after the last step, [N, H].
  [[nodiscard]] static Tensor after(const RnnPlan& plan, const Tensor& states);
  [[nodiscard]] static Tensor before(const RnnPlan& plan, const Tensor& states);
  [[nodiscard]] static Tensor last(const RnnPlan& plan, const Tensor& states);
};

/// Elman 1990; Hochreiter and Schmidhuber 1997 with Gers et al. 2000; Cho et al. 2014
/// (arXiv:1406.1078) with the reset gate applied to W_hn h + b_hn:
///   RNN   h' = f(a)
///   LSTM  c' = sigmoid(a_f) c + sigmoid(a_i) tanh(a_g),  h' = sigmoid(a_o) tanh(c')
///   GRU   n = tanh(a_n + sigmoid(a_r) (W_hn h + b_hn)),  h' = n + sigmoid(a_z) (h - n)
/// where a = x_part + bias_ih + W_hh h + bias_hh (a_n of the GRU without the last two). `x_part`,
/// [T, N, G H], is W_ih x; it is overwritten. Biases [G H] may be undefined; h0 and c0 are [N, H].
[[nodiscard]] RnnStates rnn_forward(const RnnPlan& plan, const Tensor& x_part, const Tensor& h0,
                                    const Tensor& c0, const Tensor& weight_hh,
                                    const Tensor& bias_ih, const Tensor& bias_hh);

/// Gradients of a. They are those of both products, except in the GRU, whose new gate takes the
/// hidden product times r. h0's and c0's, [N, H], are complete.
struct RnnGradients {
  Tensor x_part;       ///< [T, N, G H]
  Tensor hidden_part;  ///< the same; x_part itself but for the GRU
  Tensor bias_ih;      ///< [G H], the sum of x_part over steps and samples
  Tensor bias_hh;      ///< that of hidden_part; bias_ih itself but for the GRU
  Tensor h0, c0;       ///< h0: undefined unless asked for
};

/// grad_out is that of all states after a step, [T, N, H]; those of the last h and c are [N, H].
/// Undefined ones are zero.
[[nodiscard]] RnnGradients rnn_backward(const RnnPlan& plan, const RnnStates& states,
                                        const Tensor& weight_hh, const Tensor& grad_out,
                                        const Tensor& grad_h_n, const Tensor& grad_c_n,
                                        bool wants_h0);

}  // namespace lockstep
