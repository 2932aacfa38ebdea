#include <lockstep/nn/module.hpp>

#include <algorithm>
#include <unordered_set>

#include <lockstep/autograd/layer_scope.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/nn/device_guard.hpp>
#include <lockstep/nn/dtype_guard.hpp>
#include <lockstep/nn/forward_hook.hpp>

namespace lockstep::nn {
namespace {

/// Converts to the dtype and device of this thread's DTypeGuard and DeviceGuard.
Tensor converted_by_guards(Tensor t) {
  if (t.dtype() == DType::f32) t = t.to(default_dtype());
  return t.device() == Device{} ? t.to(default_device()) : t;
}

}  // namespace

Variable Module::forward(const Variable& /*x*/) {
  throw Error(
      "this module has no forward() that takes one tensor: call its forward() with the arguments "
      "that it takes, or call its submodules (Sequential calls its modules one after another)");
}

Variable Module::operator()(const Variable& x) {
  const LayerScope layer(trace_name_);
  return call(*this, x, [&] { return forward(x); });
}

void Module::visit(const std::string& prefix, const Visitor& f) const {
  f(prefix, *this);
  for (const auto& [name, child] : children_) child->visit(prefix + name + ".", f);
}

void Module::visit_once(const Visitor& f) const {
  std::unordered_set<const Module*> seen;
  visit("", [&](const std::string& prefix, const Module& module) {
    if (seen.insert(&module).second) f(prefix, module);
  });
}

std::vector<NamedParameter> Module::named_parameters() const {
  std::vector<NamedParameter> all;
  std::unordered_set<const void*> seen;
  visit_once([&](const std::string& prefix, const Module& module) {
    for (const auto& p : module.parameters_) {
      if (seen.insert(p.variable.record()).second) all.push_back({prefix + p.name, p.variable});
    }
  });
  return all;
}

std::vector<std::pair<std::string, Tensor>> Module::named_buffers() const {
  std::vector<std::pair<std::string, Tensor>> all;
  visit_once([&](const std::string& prefix, const Module& module) {
    for (const auto& [name, buffer] : module.buffers_) all.emplace_back(prefix + name, buffer);
  });
  return all;
}

std::vector<NamedParameter> Module::trained_parameters() const {
  std::vector<NamedParameter> trained = named_parameters();
  std::erase_if(trained, [](const NamedParameter& p) { return !p.variable.requires_grad(); });
  return trained;
}

std::vector<Variable> Module::parameters() const {
  std::vector<Variable> all;
  for (auto& p : named_parameters()) all.push_back(std::move(p.variable));
  return all;
}

std::int64_t Module::parameter_count() const {
  std::int64_t count = 0;
  for (const Variable& parameter : parameters()) count += parameter.data().numel();
  return count;
}

std::int64_t Module::own_parameter_count() const {
  std::int64_t count = 0;
  for (const auto& p : parameters_) count += p.variable.data().numel();
  return count;
}

StateDict Module::state_dict() const {
  StateDict state;
  visit("", [&](const std::string& prefix, const Module& module) {
    for (const auto& p : module.parameters_)
      state.insert(prefix + p.name, p.variable.data(), p.placement);
    for (const auto& [name, buffer] : module.buffers_) state.insert(prefix + name, buffer);
  });
  return state;
}

void Module::train(bool on) {
  training_ = on;
  for (const auto& [name, child] : children_) child->train(on);
}

bool Module::forward_is_collective() const {
  return std::ranges::any_of(children_,
                             [](const auto& c) { return c.second->forward_is_collective(); });
}

void Module::load_state_dict(const StateDict& state) {
  copy_state(state, state_dict());
  for (const Variable& parameter : parameters()) parameter.increment_version();
}

void Module::to(DType dtype) const {
  if (dtype != DType::f32 && dtype != DType::bf16 && dtype != DType::f16) {
    throw ShapeError("a module's parameters can be converted to f32, bf16 or f16, not to " +
                     std::string(name_of(dtype)));
  }
  for (const Variable& parameter : parameters()) parameter.set_dtype(dtype);
}

void Module::to(Device device) const {
  for (const Variable& parameter : parameters()) parameter.set_device(device);
  for (const auto& [name, buffer] : named_buffers()) buffer.storage()->move_to(device);
}

void Module::zero_grad() const {
  for (const auto& p : parameters_) p.variable.zero_grad();
  for (const auto& [name, child] : children_) child->zero_grad();
}

void Module::set_requires_grad(bool on) const {
  for (const auto& p : parameters_) p.variable.set_requires_grad(on);
  for (const auto& [name, child] : children_) child->set_requires_grad(on);
}

void Module::keep_slab(std::string_view name, const Tensor& slab, const Placement& placement) {
  const auto own = std::ranges::find(parameters_, name, &OwnParameter::name);
  if (own == parameters_.end())
    throw Error("this module has no parameter '" + std::string(name) + "' of its own");
  own->variable.set_value(slab);
  own->placement = placement;
}

void Module::name_layers(const std::string& prefix) {
  for (const auto& [name, child] : children_) {
    const std::string full = prefix + name;
    child->trace_name_ = lockstep::trace_name(full);
    child->name_layers(full + ".");
  }
}

void Module::expect_new_name(const std::string& name) const {
  if (name.empty() || name.find('.') != std::string::npos) {
    throw Error("'" + name +
                "' cannot be the name of a parameter, buffer or submodule: a name must not be "
                "empty or contain a dot");
  }
  const bool taken =
      std::ranges::any_of(parameters_, [&](const auto& p) { return p.name == name; }) ||
      std::ranges::any_of(buffers_, [&](const auto& b) { return b.first == name; }) ||
      std::ranges::any_of(children_, [&](const auto& c) { return c.first == name; });
  if (taken) throw Error("a module has two parts named '" + name + "'");
}

Variable Module::register_parameter(std::string name, Tensor data, const Placement& placement) {
  expect_new_name(name);
  parameters_.push_back(
      {std::move(name), Variable(converted_by_guards(std::move(data)), true), placement});
  return parameters_.back().variable;
}

Variable Module::register_parameter(std::string name, const Variable& shared) {
  expect_new_name(name);
  if (!shared.requires_grad() || !shared.is_leaf()) {
    throw Error("'" + name + "' cannot share a variable that is not a parameter");
  }
  parameters_.push_back({std::move(name), shared, {}});
  return shared;
}

Tensor Module::register_buffer(std::string name, Tensor data) {
  expect_new_name(name);
  buffers_.emplace_back(std::move(name), converted_by_guards(std::move(data)));
  return buffers_.back().second;
}

void Module::add_child(std::string name, std::shared_ptr<Module> module) {
  expect_new_name(name);
  if (!module) throw Error("module '" + name + "' is null");
  children_.emplace_back(std::move(name), std::move(module));
}

}  // namespace lockstep::nn
