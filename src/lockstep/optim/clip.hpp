#pragma once
#include <vector>

#include <lockstep/nn/module.hpp>

namespace lockstep::optim {

/// The Euclidean norm of all gradients together, summed in double in an order that depends on the
/// shapes alone. Parameters without a gradient count as zero. Local: after
/// DistributedDataParallel::backward the gradients, and so the norms, have the same bits on every
/// rank.
[[nodiscard]] double grad_norm(const std::vector<nn::NamedParameter>& parameters);

/// The same, stored in `norm`, f64 [1] on the parameters' device: the host does not wait for it.
void grad_norm(const std::vector<nn::NamedParameter>& parameters, const Tensor& norm);

/// The factor for gradients of norm `norm` that limits it to `max_norm`:
/// min(1, max_norm / (norm + 1e-6)); NaN if the norm is, 0 if it is infinite. For
/// Optimizer::step, which then clips them on its way. Throws InputError unless max_norm > 0.
[[nodiscard]] double clip_factor(double norm, double max_norm);

/// The same of `norm` into `factor`, f64 [1] both, on one device. The host does not wait.
void clip_factor(const Tensor& norm, double max_norm, const Tensor& factor);

/// PyTorch's clip_grad_norm_: scales the gradients themselves by the clip_factor of their norm,
/// which is returned, as it was before. If the norm is not finite, the gradients will not be
/// either. Throws InputError unless max_norm > 0.
double clip_grad_norm(const std::vector<nn::NamedParameter>& parameters, double max_norm);

/// Clamps every element of every gradient to [-limit, limit] (PyTorch's clip_grad_value_); a NaN
/// stays. Throws InputError unless limit > 0.
void clip_grad_value(const std::vector<nn::NamedParameter>& parameters, double limit);

}  // namespace lockstep::optim
