#include <lockstep/optim/optimizer.hpp>

#include <cmath>
#include <unordered_set>
#include <utility>

#include <fmt/format.h>

#include <lockstep/base/error.hpp>

namespace lockstep::optim {
namespace {

void expect_trainable(const std::vector<nn::NamedParameter>& parameters) {
  if (parameters.empty()) {
    throw Error("an optimizer was given no parameters: pass model.named_parameters()");
  }
  std::unordered_set<std::string_view> names;
  std::unordered_set<const void*> records;
  for (const auto& [name, variable] : parameters) {
    if (!variable.defined() || !variable.requires_grad() || !variable.is_leaf()) {
      throw Error(fmt::format(
          "parameter '{}' cannot be optimized: it must be a leaf that requires a gradient", name));
    }
    if (!names.insert(name).second || !records.insert(variable.record()).second) {
      throw Error(fmt::format("parameter '{}' was given to the optimizer twice", name));
    }
  }
}

}  // namespace

Optimizer::Optimizer(std::vector<nn::NamedParameter> parameters, double lr)
    : parameters_(std::move(parameters)) {
  expect_trainable(parameters_);
  set_lr(lr);
}

void Optimizer::zero_grad() const {
  for (const auto& parameter : parameters_) parameter.variable.zero_grad();
}

void Optimizer::set_lr(double lr) {
  if (!std::isfinite(lr) || lr < 0.0) {
    throw InputError(fmt::format("a learning rate must be finite and not negative, not {}", lr));
  }
  lr_ = lr;
}

}  // namespace lockstep::optim
