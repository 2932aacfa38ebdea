#pragma once
#include <vector>

#include <lockstep/nn/module.hpp>

namespace lockstep::optim {

/// Scales all gradients by min(1, max_norm / (norm + 1e-6)), where norm is the Euclidean norm of
/// all gradients together, before scaling, which is returned (PyTorch's clip_grad_norm_). The norm
/// is summed in double in an order that depends on the shapes alone. Parameters without a gradient
/// count as zero. Local: after DistributedDataParallel::backward the gradients, and so the norms,
/// have the same bits on every rank. If the norm is not finite, nor will the gradients be.
/// Throws InputError unless max_norm > 0.
double clip_grad_norm(const std::vector<nn::NamedParameter>& parameters, double max_norm);

/// Clamps every element of every gradient to [-limit, limit] (PyTorch's clip_grad_value_); a NaN
/// stays. Throws InputError unless limit > 0.
void clip_grad_value(const std::vector<nn::NamedParameter>& parameters, double limit);

}  // namespace lockstep::optim
