#include <lockstep/comm/nccl/launch_order.hpp>

#include <algorithm>
#include <array>

#include <lockstep/tensor/device.hpp>

namespace lockstep {

std::shared_ptr<LaunchOrder> LaunchOrder::of(Device device) {
  struct All {
    std::mutex mutex;
    std::array<std::weak_ptr<LaunchOrder>, device_slots> orders;
  };
  static auto* const all = new All;  // groups may outlive main()
  const std::lock_guard lock(all->mutex);
  std::weak_ptr<LaunchOrder>& known = all->orders[slot_of(device)];
  auto order = known.lock();
  if (!order) known = order = std::make_shared<LaunchOrder>(device);
  return order;
}

std::shared_ptr<const bool> LaunchOrder::kind_of_groups(bool late) {
  const std::lock_guard lock(mutex_);
  auto known = is_late_.lock();
  if (!known) is_late_ = known = std::make_shared<const bool>(late);
  return *known == late ? known : nullptr;
}

std::uint64_t LaunchOrder::next_group() {
  const std::lock_guard lock(mutex_);
  return next_group_;
}

void LaunchOrder::add_group(std::uint64_t number) {
  const std::lock_guard lock(mutex_);
  next_group_ = std::max(next_group_, number + 1);
}

void LaunchOrder::Place::enter(LaunchOrder& order, std::uint64_t group, std::uint64_t sequence) {
  const std::lock_guard lock(order.mutex_);
  key_ = {++order.clock_, group, sequence};
  order_ = &order;
  previous_ = nullptr;
  next_ = order.first_;
  if (next_) next_->previous_ = this;
  order.first_ = this;
}

void LaunchOrder::Place::settle(std::int64_t time) {
  const std::lock_guard lock(order_->mutex_);
  key_.time = time;
  order_->clock_ = std::max(order_->clock_, time);
}

bool LaunchOrder::Place::is_first() const {
  const std::lock_guard lock(order_->mutex_);
  for (const Place* other = order_->first_; other; other = other->next_) {
    if (other->key_ < key_) return false;
  }
  return true;
}

void LaunchOrder::Place::leave() noexcept {
  if (!order_) return;
  const std::lock_guard lock(order_->mutex_);
  (previous_ ? previous_->next_ : order_->first_) = next_;
  if (next_) next_->previous_ = previous_;
  order_ = nullptr;
}

}  // namespace lockstep
