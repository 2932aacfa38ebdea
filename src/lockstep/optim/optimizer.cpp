#include <lockstep/optim/optimizer.hpp>

#include <algorithm>
#include <cmath>
#include <deque>
#include <functional>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>

#include <fmt/format.h>

#include <lockstep/base/error.hpp>
#include <lockstep/optim/captured_rule.hpp>
#include <lockstep/tensor/device_graph.hpp>
#include <lockstep/tensor/kernels/elementwise/elementwise.hpp>
#include <lockstep/tensor/kernels/optim/master.hpp>

namespace lockstep::optim {
namespace {

void expect_trainable(const std::vector<nn::NamedParameter>& parameters) {
  if (parameters.empty()) {
    throw Error("an optimizer was given no parameters: pass model.named_parameters()");
  }
  std::unordered_set<std::string_view> names;
  std::unordered_set<const void*> records;
  for (const auto& [name, variable] : parameters) {
    if (!variable.defined() || !variable.is_leaf() || !is_floating(variable.data().dtype())) {
      throw Error(fmt::format(
          "parameter '{}' cannot be optimized: it must be a leaf of a floating dtype", name));
    }
    if (!names.insert(name).second || !records.insert(variable.record()).second) {
      throw Error(fmt::format("parameter '{}' was given to the optimizer twice", name));
    }
  }
}

std::vector<std::size_t> by_address(const std::vector<nn::NamedParameter>& parameters) {
  std::vector<std::size_t> order(parameters.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, std::less<const void*>{},
                    [&](std::size_t i) { return parameters[i].variable.data().data(); });
  return order;
}

bool same_kind(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.device() == b.device();
}

/// Prefix of the names of groups' options in checkpoints.
constexpr std::string_view options_prefix = "param_groups/";

/// Bytes between `t` and its neighbour `next`: 0 or padding; nullopt if they are not neighbours.
std::optional<std::size_t> gap_between(const Tensor& t, const Tensor& next) {
  if (t.storage().get() != next.storage().get() || t.dtype() != next.dtype()) return std::nullopt;
  const std::size_t end = t.offset_bytes() + t.bytes(), begin = next.offset_bytes();
  if (begin == end) return 0;
  if (t.storage()->is_padded() && begin == Storage::padded(end)) return begin - end;
  return std::nullopt;
}

/// A flat tensor over `t`, the padding and its neighbour.
Tensor joined(const Tensor& t, const Tensor& next) {
  const std::size_t bytes = next.offset_bytes() + next.bytes() - t.offset_bytes();
  const auto elements = static_cast<std::int64_t>(bytes / size_of(t.dtype()));
  return Tensor::over(t.storage(), t.offset_bytes(), {elements}, t.dtype());
}

}  // namespace

Optimizer::Optimizer(std::vector<nn::NamedParameter> parameters, Setup setup,
                     const std::vector<ParameterGroup>& groups)
    : parameters_(std::move(parameters)), setup_(std::move(setup)) {
  expect_trainable(parameters_);
  for (const ParameterGroup& group : groups) {
    groups_.push_back({.weight_decay = group.weight_decay.value_or(setup_.weight_decay),
                       .lr_factor = group.lr_factor,
                       .has_own_lr = group.lr.has_value(),
                       .initial_lr = group.lr.value_or(0.0)});
  }
  groups_.push_back({.weight_decay = setup_.weight_decay, .initial_lr = setup_.lr});
  set_lr(setup_.lr);
  group_of_ = group_of_each(parameters_, groups);
  for (const auto& parameter : parameters_) {
    const Tensor& data = parameter.variable.data();
    masters_.push_back(is_half(data.dtype()) ? data.to(DType::f32) : Tensor());
  }
  order_ = by_address(parameters_);
  placements_.resize(parameters_.size());
  if (!setup_.slots.empty()) make_state();
}

void Optimizer::make_state() {
  const std::size_t count = parameters_.size();
  const auto parameter = [&](std::size_t k) -> const Tensor& { return value(order_[k]); };
  slots_.assign(setup_.slots.size(), std::vector<Tensor>(count));
  std::vector<std::size_t> offsets(count);
  for (std::size_t begin = 0, end = 0; begin < count; begin = end) {
    // One flat allocation for all tensors of one dtype on one device, with the gaps of the
    // parameters' own memory: so the state of neighbours is contiguous too.
    std::size_t bytes = 0;
    for (; end < count && same_kind(parameter(begin), parameter(end)); ++end) {
      const auto gap = end > begin ? gap_between(parameter(end - 1), parameter(end)) : std::nullopt;
      bytes = gap ? bytes + *gap : Storage::padded(bytes);
      offsets[end] = bytes;
      bytes += parameter(end).bytes();
    }
    const Tensor& like = parameter(begin);
    const auto elements = static_cast<std::int64_t>(bytes / size_of(like.dtype()));
    for (auto& slot : slots_) {
      const Tensor flat = Tensor::zeros({elements}, like.dtype(), like.device());
      flat.storage()->mark_padded();
      for (std::size_t k = begin; k < end; ++k) {
        slot[order_[k]] =
            Tensor::over(flat.storage(), offsets[k], parameter(k).shape(), like.dtype());
      }
    }
  }
  const Tensor steps = Tensor::zeros({static_cast<std::int64_t>(count)}, DType::i64);
  for (std::size_t i = 0; i < count; ++i) {
    steps_.push_back(Tensor::over(steps.storage(), i * sizeof(std::int64_t), {}, DType::i64));
  }
}

// Neighbours are searched for once: for 1,000 parameters the search takes longer than the update.
void Optimizer::step(double gradient_factor) {
  if (DeviceGraph* const graph = capturing_graph())
    return capture(*graph, gradient_factor, nullptr);
  settle();
  update_all(gradient_factor, nullptr);
}

void Optimizer::step(const StepTensors& tensors) {
  const auto& [gradient_factor, found_inf] = tensors;
  if (DeviceGraph* const graph = capturing_graph()) return capture(*graph, 1.0, &tensors);
  if (device() == Device{} || !setup_.reads_step_tensors) {
    if (found_inf.defined() && found_inf.item() != 0.0) return;
    return step(gradient_factor.defined() ? gradient_factor.item() : 1.0);
  }
  settle();
  update_all(1.0, &tensors);
  note_outcome(found_inf);
}

void Optimizer::note_outcome(const Tensor& found_inf) {
  if (!found_inf.defined() || steps_.empty()) return;
  if (unsettled_) {
    unsettled_->found_inf.copy_from(found_inf, true);
  } else {
    unsettled_ = std::make_unique<Unsettled>(device());
    unsettled_->found_inf = found_inf.to(Device{}, true);
  }
  unsettled_->arrived.record(current_stream(device()));
}

// The newest step was counted before the host knew its outcome. Takes the count back if the step
// was left out.
void Optimizer::settle() const {
  if (!unsettled_) return;
  unsettled_->arrived.synchronize();
  if (unsettled_->found_inf.item() == 0.0) return;
  unsettled_->found_inf.zero();
  for (const Seen& seen : seen_) {
    if (seen.has_gradient) --*seen.step;
  }
}

void Optimizer::update_all(double gradient_factor, const StepTensors* tensors) {
  if (!plan_holds()) make_plan();
  std::size_t begin = 0;
  for (auto& [run, end] : plan_) {
    run.lr = groups_[run.group].lr;
    run.weight_decay = groups_[run.group].weight_decay;
    run.gradient_factor = gradient_factor;
    run.tensors = tensors;
    for (; begin < end; ++begin) {
      const Seen& seen = seen_[begin];
      if (!seen.has_gradient) continue;
      if (seen.step) run.step = ++*seen.step;
      parameters_[order_[begin]].variable.increment_version();
    }
    update_with_master(run);
  }
}

void Optimizer::update_with_master(const Run& run) {
  if (!masters_[run.first].defined()) return update(run);
  const Variable& parameter = parameters_[run.first].variable;
  follow_parameter(parameter.data(), run.parameter);
  convert(parameter.grad(), run.gradient);
  update(run);
  convert(run.parameter, parameter.data());
}

DeviceGraph* Optimizer::capturing_graph() const {
  DeviceGraph* const graph = DeviceGraph::capturing();
  return graph && graph->device() == device() ? graph : nullptr;
}

void Optimizer::capture(DeviceGraph& graph, double gradient_factor, const StepTensors* tensors) {
  if (!setup_.capturable) {
    throw Error(
        "this optimizer cannot be captured into a graph, as it is not one of the library's that "
        "update element by element (SGD, AdamW and others): call step() after the replay");
  }
  struct Captured {
    Run run;
    CapturedRule rule;
    std::vector<std::int64_t*> counts;  // of its parameters
  };
  if (!plan_holds()) make_plan();
  const auto all = std::make_shared<std::deque<Captured>>();
  std::size_t begin = 0;
  for (const auto& [planned, end] : plan_) {
    auto& [run, rule, counts] = all->emplace_back(Captured{planned, CapturedRule(graph), {}});
    for (; begin < end; ++begin) {
      const Seen& seen = seen_[begin];
      if (seen.has_gradient && seen.step) counts.push_back(seen.step);
    }
    run.lr = groups_[run.group].lr;
    run.weight_decay = groups_[run.group].weight_decay;
    run.gradient_factor = gradient_factor;
    run.tensors = tensors;
    run.captured = &rule;
    run.step = counts.empty() ? 0 : *counts.front() + 1;
    update_with_master(run);
    run.tensors = nullptr;
    if (rule.is_kept()) continue;
    throw Error("an optimizer with Setup::capturable must update by update_elements()");
  }
  graph.before_replay([this, all] {
    settle();
    for (auto& [run, rule, counts] : *all) {
      run.lr = groups_[run.group].lr;
      run.weight_decay = groups_[run.group].weight_decay;
      for (std::int64_t* const count : counts) run.step = ++*count;
      update(run);
    }
  });
  if (tensors && tensors->found_inf.defined())
    graph.after_replay([this, found_inf = tensors->found_inf] { note_outcome(found_inf); });
}

bool Optimizer::plan_holds() const noexcept {
  if (seen_.empty()) return false;
  std::size_t begin = 0;
  for (const auto& [run, end] : plan_) {
    const std::int64_t* step = nullptr;
    for (; begin < end; ++begin) {
      if (!is_as_seen(begin)) return false;
      const Seen& seen = seen_[begin];
      if (!seen.has_gradient || !seen.step) continue;
      if (step && *seen.step != *step) return false;
      step = seen.step;
    }
  }
  for (; begin < seen_.size(); ++begin) {
    if (!is_as_seen(begin)) return false;
  }
  return true;
}

bool Optimizer::is_as_seen(std::size_t k) const noexcept {
  const detail::VariableRecord& now = *parameters_[order_[k]].variable.record();
  const Seen& seen = seen_[k];
  return now.grad_holds_value == seen.has_gradient && now.data.data() == seen.value &&
         (!seen.has_gradient || now.grad.data() == seen.gradient);
}

void Optimizer::make_plan() {
  plan_.clear();
  seen_.clear();
  for (const std::size_t i : order_) {
    const Tensor gradient = parameters_[i].variable.grad();
    Seen& seen = seen_.emplace_back();
    seen.value = parameters_[i].variable.data().data();
    if (!steps_.empty()) seen.step = static_cast<std::int64_t*>(steps_[i].data());
    if (!gradient.defined()) continue;
    seen.has_gradient = true;
    seen.gradient = gradient.data();
    const Tensor wide = masters_[i].defined()
                            ? Tensor::empty(gradient.shape(), DType::f32, gradient.device())
                            : gradient;
    if (plan_.empty() || !extend(plan_.back().run, i, wide)) {
      plan_.push_back({run_of(i, wide), 0});
    }
    plan_.back().end = seen_.size();
  }
}

const Tensor& Optimizer::value(std::size_t parameter) const {
  const Tensor& master = masters_[parameter];
  return master.defined() ? master : parameters_[parameter].variable.data();
}

Optimizer::Run Optimizer::run_of(std::size_t parameter, const Tensor& gradient) const {
  Run run;
  run.parameter = value(parameter);
  run.gradient = gradient;
  for (const auto& slot : slots_) run.slots.push_back(slot[parameter]);
  if (!steps_.empty()) run.step = static_cast<std::int64_t>(steps_[parameter].item());
  run.first = parameter;
  run.group = group_of_[parameter];
  return run;
}

bool Optimizer::extend(Run& run, std::size_t parameter, const Tensor& gradient) const {
  const Tensor& data = value(parameter);
  if (!setup_.elementwise || group_of_[parameter] != run.group ||
      (!steps_.empty() && static_cast<std::int64_t>(steps_[parameter].item()) != run.step)) {
    return false;
  }
  const auto gap = gap_between(run.parameter, data);
  if (!gap || gap_between(run.gradient, gradient) != gap) return false;
  for (std::size_t s = 0; s < slots_.size(); ++s) {
    if (gap_between(run.slots[s], slots_[s][parameter]) != gap) return false;
  }
  run.parameter = joined(run.parameter, data);
  run.gradient = joined(run.gradient, gradient);
  for (std::size_t s = 0; s < slots_.size(); ++s) {
    run.slots[s] = joined(run.slots[s], slots_[s][parameter]);
  }
  return true;
}

void Optimizer::zero_grad() const {
  for (const auto& parameter : parameters_) parameter.variable.zero_grad();
}

void Optimizer::set_lr(double lr) {
  if (!std::isfinite(lr) || lr < 0.0) {
    throw InputError(fmt::format("a learning rate must be finite and not negative, not {}", lr));
  }
  // The parameter's own rate exactly, as long as the optimizer still has its initial one.
  const double first = groups_.back().initial_lr;
  const double ratio = lr == first || first == 0.0 ? 1.0 : lr / first;
  for (Group& group : groups_)
    group.lr = group.has_own_lr ? group.initial_lr * ratio : lr * group.lr_factor;
}

void Optimizer::set_lr(double lr, const std::function<double(double)>& f) {
  set_lr(lr);
  for (Group& group : groups_) group.lr = f(group.lr);
}

void Optimizer::set_momentum(double momentum) {
  if (this->momentum() == 0.0) {
    throw InputError(
        "the momentum of an optimizer that was constructed without one cannot be set: construct it "
        "with a momentum above 0");
  }
  if (!(momentum > 0.0 && momentum < 1.0)) {
    throw InputError(fmt::format("a momentum must be above 0 and below 1, not {}", momentum));
  }
  keep_momentum(momentum);
}

void Optimizer::take_placements(const StateDict& model) {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const auto* entry = model.find(parameters_[i].name);
    if (!entry) continue;
    const Placement& placement = entry->placement;
    if (!setup_.elementwise && placement.sharded && entry->tensor.shape() != placement.global) {
      throw InputError(fmt::format(
          "this optimizer looks at whole parameters, as LARS and LAMB do, but each rank holds a "
          "part of '{}': use one that updates element by element, such as SGD or AdamW",
          parameters_[i].name));
    }
    placements_[i] = placement;
  }
}

StateDict Optimizer::state_dict() const {
  settle();
  StateDict state;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const auto& name = parameters_[i].name;
    if (masters_[i].defined()) state.insert(name + "/master", masters_[i], placements_[i]);
    if (slots_.empty()) continue;
    for (std::size_t s = 0; s < slots_.size(); ++s) {
      state.insert(name + "/" + setup_.slots[s], slots_[s][i], placements_[i]);
    }
    state.insert(name + "/step", steps_[i]);
  }
  return state;
}

template <class Visit>
void Optimizer::visit_groups(const Visit& visit) {
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    const auto visit_one = [&](const char* name, double& value) {
      visit(fmt::format("{}{}/{}", options_prefix, g, name), value);
    };
    Group& group = groups_[g];
    visit_one("lr", group.lr);
    visit_one("weight_decay", group.weight_decay);
    visit_one("lr_factor", group.lr_factor);
    double has_own_lr = group.has_own_lr ? 1.0 : 0.0;
    visit_one("has_own_lr", has_own_lr);
    group.has_own_lr = has_own_lr != 0.0;
    visit_one("initial_lr", group.initial_lr);
    visit_options(g, visit_one);
  }
}

StateDict Optimizer::param_groups() {
  StateDict options;
  visit_groups([&](const std::string& name, const double& value) {
    options.insert(name, Tensor::full({}, value, DType::f64));
  });
  return options;
}

void Optimizer::load_state_dict(const StateDict& state) {
  StateDict slots, saved;
  for (const auto& [name, tensor, placement] : state) {
    (name.starts_with(options_prefix) ? saved : slots).insert(name, tensor, placement);
  }
  const StateDict options = param_groups();
  if (saved.size() > 0) copy_state(saved, options);
  copy_state(slots, state_dict());
  visit_groups([&](const std::string& name, double& value) { value = options.at(name).item(); });
}

}  // namespace lockstep::optim
