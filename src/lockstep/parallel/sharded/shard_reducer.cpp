#include <lockstep/parallel/sharded/shard_reducer.hpp>

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include <lockstep/base/clock.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/comm/call_label.hpp>
#include <lockstep/parallel/bucket.hpp>

namespace lockstep {

ShardReducer::ShardReducer(std::shared_ptr<ShardedUnits> units, std::shared_ptr<ProcessGroup> group,
                           std::shared_ptr<ProcessGroup> replicas, PassObserver* observer)
    : units_(std::move(units)),
      group_(std::move(group)),
      replicas_(std::move(replicas)),
      places_of_unit_(units_->units().size()),
      pending_(units_->units().size()) {
  std::int64_t notes = 0;
  std::size_t most = 0;
  Device device;
  for (std::size_t u = 0; u < units_->units().size(); ++u) {
    for (FlatShard& shard : units_->units()[u].shards) {
      if (!shard.is_trained()) continue;
      places_of_unit_[u].push_back(places_.size());
      places_.push_back({u, &shard, notes, own_memory});
      notes += static_cast<std::int64_t>(shard.parameters().size());
      if (u != ShardedUnits::root) most = std::max(most, shard.gradient_bytes());
      device = shard.pieces().front().variable.data().device();
    }
  }
  used_.resize(static_cast<std::size_t>(notes));
  notes_ = Tensor::zeros({notes}, DType::f32, device);
  stats_.buckets = places_.size();
  const auto add_buffer = [&](std::size_t bytes, bool is_of_root) {
    const Shape shape{static_cast<std::int64_t>(bytes)};
    buffers_.push_back({memory_to_reduce(*group_, shape, DType::u8, device).storage(), is_of_root});
  };
  for (std::size_t i = 0; i < buffers_of_units && most > 0; ++i) add_buffer(most, false);
  for (const std::size_t place : places_of_unit_[ShardedUnits::root])
    add_buffer(places_[place].shard->gradient_bytes(), true);
  in_flight_.reserve(places_.size());
  replicating_.reserve(places_.size());
  for (std::size_t p = 0; p < places_.size(); ++p) {
    for (const auto& parameter : places_[p].shard->parameters()) {
      hooks_.push_back(
          parameter.variable.add_grad_hook([this, p] { gradient_is_final(p); }, observer));
    }
  }
}

void ShardReducer::begin(bool sums, double factor) {
  is_running_ = true;
  sums_ = sums;
  factor_ = factor;
  order_.clear();
  launched_ = 0;
  const auto is_in_order = [&](std::size_t u) {
    return std::ranges::find(order_, u) != order_.end();
  };
  for (const std::size_t u : units_->backward_order()) {
    if (units_->units()[u].is_trained) order_.push_back(u);
  }
  for (const Place& place : places_) {  // kept by a pass within no_sync()
    const bool kept = place.unit != ShardedUnits::root && place.shard->has_gradient_memory();
    if (kept && !is_in_order(place.unit)) order_.push_back(place.unit);
  }
  if (units_->units()[ShardedUnits::root].is_trained) order_.push_back(ShardedUnits::root);
  for (std::size_t u = 0; u < pending_.size(); ++u) {
    pending_[u] = 0;
    for (const std::size_t p : places_of_unit_[u]) {
      for (const auto& parameter : places_[p].shard->parameters())
        pending_[u] += parameter.variable.awaits_gradient() ? 1 : 0;
    }
  }
  enter(ShardedUnits::root);
  launch_ready();
}

void ShardReducer::enter(std::size_t unit) {
  if (!is_running_) return;
  for (const std::size_t p : places_of_unit_[unit]) {
    if (pending_[unit] > 0) take_memory(places_[p]);
  }
}

void ShardReducer::take_memory(Place& place) {
  if (place.shard->has_gradient_memory()) return;
  const std::size_t bytes = place.shard->gradient_bytes();
  const bool is_of_root = place.unit == ShardedUnits::root;
  while (sums_) {
    for (std::size_t b = 0; b < buffers_.size(); ++b) {
      const Buffer& buffer = buffers_[b];
      if (!buffer.is_free || buffer.is_of_root != is_of_root || buffer.memory->bytes() < bytes)
        continue;
      buffers_[b].is_free = false;
      place.buffer = b;
      return place.shard->take_gradients(buffers_[b].memory);
    }
    if (in_flight_.empty()) break;
    complete_oldest();
  }
  place.buffer = own_memory;
  place.shard->take_gradients(
      Storage::allocate(bytes, place.shard->pieces().front().variable.data().device()));
}

void ShardReducer::return_memory(Place& place) {
  if (place.buffer != own_memory) buffers_[place.buffer].is_free = true;
  place.buffer = own_memory;
}

void ShardReducer::gradient_is_final(std::size_t p) {
  if (!is_running_) return;
  Place& place = places_[p];
  if (!place.shard->has_gradient_memory()) {
    throw Error(
        fmt::format("FullyShardedDataParallel: a parameter of unit '{}' was used outside of the "
                    "unit's forward, "
                    "where it is not gathered. Use it within, or leave the unit out of "
                    "FullyShardOptions::units.",
                    unit_of(place).name));
  }
  if (--pending_[place.unit] == 0) {
    units_->leave_backward(place.unit);
    launch_ready();
  }
  move_on();
}

// MPI may move bytes only inside its calls.
void ShardReducer::move_on() {
  if (!in_flight_.empty()) {
    static_cast<void>(places_[in_flight_.front()].shard->is_reduced());
  } else if (!replicating_.empty()) {
    places_[replicating_.front()].shard->poke_replicas();
  }
}

void ShardReducer::launch_ready() {
  if (!sums_) return;
  for (; launched_ < order_.size() && pending_[order_[launched_]] == 0; ++launched_) {
    units_->join_gathers_of(order_[launched_]);
    for (const std::size_t p : places_of_unit_[order_[launched_]]) launch(p);
  }
}

void ShardReducer::launch(std::size_t p) {
  Place& place = places_[p];
  while (replicas_ && !in_flight_.empty() && places_[in_flight_.front()].unit != place.unit)
    complete_oldest();
  take_memory(place);
  const auto count = static_cast<std::int64_t>(place.shard->parameters().size());
  const CallLabel label("gradients of unit", static_cast<int>(place.unit));
  place.shard->start_reduce(*group_, notes_.slice(place.first_note, place.first_note + count));
  in_flight_.push_back(p);
}

void ShardReducer::complete_oldest() {
  const std::size_t oldest = in_flight_.front();
  Place& place = places_[oldest];
  in_flight_.erase(in_flight_.begin());
  const CallLabel label("gradients of unit", static_cast<int>(place.unit));
  static_cast<void>(place.shard->end_reduce(replicas_.get()));
  return_memory(place);
  if (replicas_) {
    replicating_.push_back(oldest);
  } else {
    place.shard->finish_sum(factor_);
  }
}

void ShardReducer::finish() {
  is_running_ = false;
  if (!sums_) return;
  const auto start = Clock::now();
  const auto waited = [&] {
    WaitTimes all = group_->wait_times();
    if (!replicas_) return all;
    const WaitTimes replicas = replicas_->wait_times();
    all.work_s += replicas.work_s;
    all.straggler_s += replicas.straggler_s;
    return all;
  };
  const WaitTimes before = waited();
  std::ranges::fill(pending_, std::size_t{0});
  launch_ready();
  if (notes_.numel() > 0) {
    const CallLabel label("used parameters");
    group_->all_reduce(notes_, ReduceOp::sum).wait();
  }
  while (!in_flight_.empty()) complete_oldest();
  if (replicas_ && notes_.numel() > 0) {
    const CallLabel label("used parameters");
    replicas_->all_reduce(notes_, ReduceOp::sum).wait();
  }
  for (const std::size_t p : replicating_) places_[p].shard->finish_sum(factor_);
  replicating_.clear();
  const Tensor here = notes_.to(Device{});
  const auto* notes = static_cast<const float*>(here.data());
  for (const std::size_t u : order_) {
    for (const std::size_t p : places_of_unit_[u])
      places_[p].shard->forget_unused(notes + places_[p].first_note);
  }
  for (std::size_t i = 0; i < used_.size(); ++i) {
    if (notes[i] != 0.0F) used_[i] = 1;
  }
  notes_.zero();
  stats_.wait_s += seconds_since(start);
  const WaitTimes after = waited();
  stats_.work_s += after.work_s - before.work_s;
  stats_.straggler_s += after.straggler_s - before.straggler_s;
}

void ShardReducer::give_up() noexcept {
  is_running_ = false;
  in_flight_.clear();
  replicating_.clear();
  notes_.zero();
  try {
    drop_kept();
  } catch (const std::exception&) {  // the group has failed: no sum will follow
    return;
  }
}

void ShardReducer::scale_kept(double factor) {
  for (const Place& place : places_) place.shard->scale_gradients(factor);
}

void ShardReducer::drop_kept() {
  for (Place& place : places_) {
    static_cast<void>(place.shard->drop_gradients());
    return_memory(place);
  }
}

std::vector<std::string> ShardReducer::never_used() const {
  std::vector<std::string> names;
  for (const Place& place : places_) {
    const auto& parameters = place.shard->parameters();
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      if (used_[static_cast<std::size_t>(place.first_note) + i] == 0)
        names.push_back(parameters[i].name);
    }
  }
  return names;
}

}  // namespace lockstep
