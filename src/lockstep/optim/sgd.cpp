#include <lockstep/optim/sgd.hpp>

#include <cmath>
#include <utility>

#include <fmt/format.h>

#include <lockstep/base/error.hpp>
#include <lockstep/tensor/kernels/sgd.hpp>

namespace lockstep::optim {
namespace {

void expect_not_negative(const char* name, double value) {
  if (!std::isfinite(value) || value < 0.0) {
    throw InputError(fmt::format("SGD's {} must be finite and not negative, not {}", name, value));
  }
}

void validate(const SgdOptions& options) {
  expect_not_negative("momentum", options.momentum);
  expect_not_negative("weight_decay", options.weight_decay);
  if (!std::isfinite(options.dampening)) {
    throw InputError(fmt::format("SGD's dampening must be finite, not {}", options.dampening));
  }
  if (options.nesterov && (options.momentum == 0.0 || options.dampening != 0.0)) {
    throw InputError(
        fmt::format("SGD's nesterov needs momentum above 0 and dampening 0, not {} and {}",
                    options.momentum, options.dampening));
  }
}

}  // namespace

SGD::SGD(std::vector<nn::NamedParameter> parameters, const SgdOptions& options)
    : Optimizer(std::move(parameters), options.lr), options_(options) {
  validate(options);
  if (options.momentum == 0.0) return;
  slots_.reserve(this->parameters().size());
  for (const auto& [name, variable] : this->parameters()) {
    const Tensor& p = variable.data();
    slots_.push_back(
        {Tensor::zeros(p.shape(), p.dtype(), p.device()), Tensor::zeros({}, DType::i64)});
  }
}

void SGD::step() {
  SgdUpdate update{.lr = lr(),
                   .momentum = options_.momentum,
                   .dampening = options_.dampening,
                   .weight_decay = options_.weight_decay,
                   .nesterov = options_.nesterov};
  for (std::size_t i = 0; i < parameters().size(); ++i) {
    const Variable& variable = parameters()[i].variable;
    const Tensor gradient = variable.grad();
    if (!gradient.defined()) continue;
    if (slots_.empty()) {
      sgd_update(variable.data(), gradient, {}, update);
      continue;
    }
    const auto& [momentum_buffer, step] = slots_[i];
    const double before = step.item();
    update.first = before == 0.0;
    sgd_update(variable.data(), gradient, momentum_buffer, update);
    step.fill(before + 1.0);
  }
}

StateDict SGD::state_dict() const {
  StateDict state;
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    const auto& name = parameters()[i].name;
    state.insert(name + "/momentum_buffer", slots_[i].momentum_buffer);
    state.insert(name + "/step", slots_[i].step);
  }
  return state;
}

}  // namespace lockstep::optim
