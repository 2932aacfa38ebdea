#include <lockstep/parallel/sharded/sharded_units.hpp>

#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include <lockstep/autograd/differentiation.hpp>
#include <lockstep/autograd/node.hpp>
#include <lockstep/base/log.hpp>
#include <lockstep/comm/call_label.hpp>
#include <lockstep/nn/forward_hook.hpp>
#include <lockstep/parallel/sharded/unit_modules.hpp>

namespace lockstep {
namespace {

/// Stands at the end of a unit's graph: backward enters the unit here.
class UnitNode final : public PooledNode<UnitNode> {
 public:
  static constexpr bool mixes_layouts = true;
  static constexpr std::uint32_t saved_inputs = 0;

  UnitNode(std::shared_ptr<ShardedUnits> units, std::size_t unit)
      : units_(std::move(units)), unit_(unit) {}

  void backward(const Tensor& grad_output) override {
    units_->enter_backward(unit_);
    pass_grad(0, grad_output);
  }
  void differentiate(Differentiation& d) override {
    units_->enter_backward(unit_);
    d.give(0, d.grad_output());
  }
  [[nodiscard]] const char* name() const noexcept override { return "enter unit"; }

 private:
  std::shared_ptr<ShardedUnits> units_;
  std::size_t unit_;
};

/// The forward hook of a thread, for all models that it runs.
class HookOfUnits final : public nn::ForwardHook {
 public:
  void before(const nn::Module& module, const Variable& /*x*/) override {
    for (ShardedUnits* units : watching()) units->before(module);
  }
  void after(const nn::Module& module, Variable& y) override {
    for (ShardedUnits* units : watching()) units->after(module, y);
  }
  [[nodiscard]] bool sees_parts_of(const nn::Module& module) const override {
    return std::ranges::any_of(
        watching(), [&](const ShardedUnits* units) { return units->sees_parts_of(module); });
  }

  static void add(ShardedUnits& units) {
    if (!of_thread()) of_thread().emplace();
    watching().push_back(&units);
  }
  static void remove(ShardedUnits& units) {
    watching().erase(std::ranges::find(watching(), &units));
    if (watching().empty()) of_thread().reset();
  }

 private:
  static std::optional<HookOfUnits>& of_thread() {
    thread_local std::optional<HookOfUnits> hook;
    return hook;
  }
  static std::vector<ShardedUnits*>& watching() {
    thread_local std::vector<ShardedUnits*> units;
    return units;
  }
};

/// Whether the pass may read a parameter of the unit when all gradients that it gives are there.
bool has_frozen_parameter(const ShardedUnits::Unit& unit) {
  return std::ranges::any_of(unit.shards, [](const FlatShard& shard) {
    return std::ranges::any_of(shard.parameters(),
                               [](const auto& one) { return !one.variable.awaits_gradient(); });
  });
}

}  // namespace

UnitWatch::UnitWatch(ShardedUnits& units) : units_(units) { HookOfUnits::add(units); }
UnitWatch::~UnitWatch() { HookOfUnits::remove(units_); }

ShardedUnits::ShardedUnits(nn::Module& model, std::shared_ptr<ProcessGroup> group,
                           const FullyShardOptions& options)
    : group_(std::move(group)), reshards_(options.reshard_after_forward) {
  for (UnitModule& found : unit_modules(model, options.units)) {
    const std::size_t number = units_.size();
    Unit& unit = units_.emplace_back();
    unit.name = found.name;
    for (auto& run : found.runs) {
      const FlatShard& shard = unit.shards.emplace_back(*group_, std::move(run), options);
      unit.is_trained = unit.is_trained || shard.is_trained();
      if (number != root) most_bytes_ = std::max(most_bytes_, shard.value_bytes());
    }
    if (found.module == &model) continue;
    is_unit_.emplace(found.module, number);
    const std::function<void(const nn::Module&)> add = [&](const nn::Module& module) {
      unit_of_.emplace(&module, number);
      for (const auto& [name, child] : module.children()) add(*child);
    };
    add(*found.module);
  }
  const std::function<bool(const nn::Module&)> mark = [&](const nn::Module& module) {
    bool has_units = false;
    for (const auto& [name, child] : module.children())
      has_units = is_unit_.contains(child.get()) || mark(*child) || has_units;
    if (has_units) above_.insert(&module);
    return has_units;
  };
  mark(model);
  moving_.reserve(units_.size());
  spare_.reserve(2 * units_.size());
}

void ShardedUnits::gather(std::size_t number) {
  Unit& unit = units_[number];
  unit.is_there = unit.is_fresh = true;
  const CallLabel label("unit", static_cast<int>(number));
  for (FlatShard& shard : unit.shards) {
    shard.start_gather(
        *group_, shard.has_value_memory() ? IntrusivePtr<Storage>() : memory_for(shard, number));
  }
  if (std::ranges::find(moving_, number) == moving_.end()) moving_.push_back(number);
}

// Where units are freed, each one's memory serves any other: as many blocks as are there at a time.
IntrusivePtr<Storage> ShardedUnits::memory_for(const FlatShard& shard, std::size_t number) {
  const bool is_shared = reshards_ && number != root;
  const std::size_t bytes = is_shared ? most_bytes_ : shard.value_bytes();
  const auto found = std::ranges::find(spare_, bytes, [](const auto& one) { return one->bytes(); });
  if (found == spare_.end()) {
    const Device device = shard.pieces().front().variable.data().device();
    return device == Device{} ? Storage::allocate_uncached(bytes)
                              : Storage::allocate(bytes, device);
  }
  IntrusivePtr<Storage> memory = std::move(*found);
  spare_.erase(found);
  return memory;
}

void ShardedUnits::wait_for(std::size_t number) {
  for (FlatShard& shard : units_[number].shards) shard.wait_for_values();
}

void ShardedUnits::free(std::size_t number) {
  Unit& unit = units_[number];
  unit.is_there = false;
  for (FlatShard& shard : unit.shards) {
    IntrusivePtr<Storage> memory = shard.free();
    // A device's allocator orders its reuse behind the stream's work.
    if (memory && memory->device() == Device{}) spare_.push_back(std::move(memory));
  }
}

// MPI may move bytes only inside its calls.
void ShardedUnits::move_on() {
  std::erase_if(moving_, [&](std::size_t number) {
    return std::ranges::all_of(units_[number].shards,
                               [](FlatShard& shard) { return shard.values_are_in(); });
  });
}

void ShardedUnits::forward_begins(bool records) {
  phase_ = Phase::forward;
  records_ = records;
  entered_.clear();
  for (Unit& unit : units_) unit.is_fresh = false;
  if (std::exchange(pass_is_over_, false)) {
    for (Unit& unit : units_) unit.in_graph = false;
  }
  gather(root);
  if (!order_.empty()) gather(order_.front());
  wait_for(root);
}

void ShardedUnits::enter_forward(std::size_t number) {
  Unit& unit = units_[number];
  if (!unit.is_there || !unit.is_fresh) gather(number);
  if (std::ranges::find(entered_, number) == entered_.end()) entered_.push_back(number);
  if (unit.place + 1 < order_.size() && order_[unit.place] == number) {
    const std::size_t next = order_[unit.place + 1];
    if (!units_[next].is_there || !units_[next].is_fresh) gather(next);
  }
  wait_for(number);
}

void ShardedUnits::before(const nn::Module& module) {
  if (!moving_.empty()) move_on();
  if (phase_ == Phase::forward) {
    if (const auto unit = is_unit_.find(&module); unit != is_unit_.end())
      enter_forward(unit->second);
  } else if (phase_ == Phase::backward) {  // recomputes
    if (const auto unit = unit_of_.find(&module); unit != unit_of_.end())
      enter_backward(unit->second);
  }
}

void ShardedUnits::after(const nn::Module& module, Variable& y) {
  if (phase_ != Phase::forward) return;
  const auto found = is_unit_.find(&module);
  if (found == is_unit_.end()) return;
  const std::size_t number = found->second;
  Unit& unit = units_[number];
  // Where operations are not recorded within a forward that records, backward recomputes them.
  const bool in_graph = records_ && (!grad_enabled() || y.requires_grad());
  unit.in_graph = unit.in_graph || in_graph;
  if (records_ && grad_enabled() && y.requires_grad()) {
    Tensor value = y.data();
    y = record<UnitNode>(std::move(value), {&y}, shared_from_this(), number);
  }
  const bool is_last = !order_.empty() && order_.back() == number;
  if (!in_graph || (reshards_ && !is_last)) free(number);
}

void ShardedUnits::set_order() {
  if (entered_.empty()) return;
  order_.swap(entered_);
  for (std::size_t i = 0; i < order_.size(); ++i) units_[order_[i]].place = i;
}

void ShardedUnits::forward_ends() {
  phase_ = Phase::none;
  set_order();
  for (std::size_t u = 1; u < units_.size(); ++u) {
    const bool was_entered = std::ranges::find(order_, u) != order_.end();
    if (units_[u].is_there && (!records_ || !was_entered)) free(u);
  }
  if (!records_) free(root);
  if (std::exchange(has_warned_, true) || order_.size() + 1 == units_.size() ||
      group_->rank() != 0) {
    return;
  }
  for (std::size_t u = 1; u < units_.size(); ++u) {
    if (std::ranges::find(order_, u) != order_.end()) continue;
    log(LogLevel::warning,
        fmt::format("FullyShardedDataParallel: the first forward did not call '{}' as a module, "
                    "(*module)(x). If it is used in another way, its parameters read as NaN: name "
                    "other modules in FullyShardOptions::units.",
                    units_[u].name));
    return;
  }
}

void ShardedUnits::backward_begins() {
  phase_ = Phase::backward;
  pass_is_over_ = true;
  backward_order_.clear();
  gathered_ = 0;
  for (Unit& unit : units_) unit.is_frozen = has_frozen_parameter(unit);
  for (auto unit = order_.rbegin(); unit != order_.rend(); ++unit) {
    if (units_[*unit].in_graph) backward_order_.push_back(*unit);
  }
  for (std::size_t u = 1; u < units_.size(); ++u) {  // entered by an earlier forward only
    const bool is_in = std::ranges::find(backward_order_, u) != backward_order_.end();
    if (units_[u].in_graph && !is_in) backward_order_.push_back(u);
  }
  if (!units_[root].is_there) gather(root);
  wait_for(root);
}

void ShardedUnits::gather_up_to(std::size_t end) {
  for (; gathered_ < std::min(end, backward_order_.size()); ++gathered_) {
    if (const std::size_t next = backward_order_[gathered_]; !units_[next].is_there) gather(next);
  }
}

void ShardedUnits::join_gathers_of(std::size_t number) {
  if (phase_ != Phase::backward) return;
  const auto place = std::ranges::find(backward_order_, number);
  if (place == backward_order_.end()) return;
  gather_up_to(static_cast<std::size_t>(place - backward_order_.begin()) + 2);
}

void ShardedUnits::enter_backward(std::size_t number) {
  const auto place = std::ranges::find(backward_order_, number);
  if (phase_ == Phase::backward && place != backward_order_.end()) {
    const auto at = static_cast<std::size_t>(place - backward_order_.begin());
    gather_up_to(at + 2);
    for (std::size_t i = 0; i < at; ++i) {
      const std::size_t earlier = backward_order_[i];
      if (units_[earlier].is_there && units_[earlier].is_frozen) free(earlier);
    }
  }
  if (!units_[number].is_there) gather(number);
  wait_for(number);
  if (phase_ == Phase::backward && backward_enters_) backward_enters_(number);
}

void ShardedUnits::leave_backward(std::size_t number) {
  if (!moving_.empty()) move_on();
  if (number != root && !units_[number].is_frozen) free(number);
}

void ShardedUnits::backward_ends() {
  gather_up_to(backward_order_.size());  // as other ranks may have
  free_all();
  phase_ = Phase::none;
}

void ShardedUnits::fails() noexcept {
  phase_ = Phase::none;
  try {
    free_all();
  } catch (const std::exception&) {  // the group has failed, and keeps the memory
    moving_.clear();
  }
}

void ShardedUnits::gather_all() {
  for (std::size_t u = 0; u < units_.size(); ++u) gather(u);
  for (std::size_t u = 0; u < units_.size(); ++u) wait_for(u);
}

void ShardedUnits::release() {
  for (Unit& unit : units_) {
    for (FlatShard& shard : unit.shards) shard.release(*group_);
  }
}

void ShardedUnits::free_all() {
  for (std::size_t u = 0; u < units_.size(); ++u) {
    if (units_[u].is_there) free(u);
  }
  moving_.clear();
}

}  // namespace lockstep
