#pragma once
#include <lockstep/autograd/operand.hpp>
#include <lockstep/tensor/kernels/sequence/rnn.hpp>

namespace lockstep {

/// torch.nn's: weight_ih[G H, I], weight_hh[G H, H], biases [G H] or undefined; G gates (gates_of).
struct RecurrentWeights {
  Variable weight_ih, weight_hh, bias_ih, bias_hh;
};

/// Outputs of one recurrent layer in one direction.
struct RecurrentOutput {
  Variable output;    ///< h after each element of x, [T, N, H]
  Variable h_n, c_n;  ///< after the last step, [N, H]; c_n of the LSTM only
};

/// One layer in one direction over x[T, N, I] from the state h0[N, H] (and c0, of the LSTM;
/// tensor/kernels/sequence/rnn.hpp has the formulas). Undefined states are zeros. With `reverse`
/// from the last element to the first. `lengths`, i64 [N], each in [1, T], or undefined: how many
/// elements each sequence has, as in PyTorch's pack_padded_sequence. Elements of x after a
/// sequence's end have no effect, and the output is 0 there; h_n and c_n are the states after each
/// sequence's last step, and `reverse` starts at each sequence's end. Throws ShapeError for other
/// lengths. They are on the host, which waits for x's device to copy them, or on that device, which
/// reports wrong ones late (docs/guide/devices.md) and takes 1 for them.
[[nodiscard]] RecurrentOutput recurrent_layer(RnnMode mode, const Operand& x, const Operand& h0,
                                              const Operand& c0, const RecurrentWeights& weights,
                                              bool reverse = false, const Tensor& lengths = {});

}  // namespace lockstep
