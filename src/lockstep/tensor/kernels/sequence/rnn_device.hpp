#pragma once
// The steps of recurrent layers on a GPU: for each one product by the recurrent weights and one
// kernel for everything else. Private to rnn.cpp, which has prepared the tensors.
#include <lockstep/tensor/kernels/sequence/rnn.hpp>

namespace lockstep::detail {

inline constexpr const char* rnn_name = "a recurrent layer";

/// Fills `states` behind the initial one, and its hidden_part. `gates` are rnn_forward's x_part.
void rnn_forward_on_device(const RnnPlan& plan, const RnnStates& states, const Tensor& gates,
                           const Tensor& weight_hh, const Tensor& bias_ih, const Tensor& bias_hh);

/// Fills `gradients`, whose c0 begins as the gradient of the last c, as grad_h does as that of the
/// last h. Leaves h0's in grad_h if that is wanted.
void rnn_backward_on_device(const RnnPlan& plan, const RnnStates& states, const Tensor& weight_hh,
                            const Tensor& grad_out, const Tensor& grad_h,
                            const RnnGradients& gradients, bool wants_h0);

}  // namespace lockstep::detail
