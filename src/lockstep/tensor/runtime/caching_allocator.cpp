#include <lockstep/tensor/runtime/caching_allocator.hpp>

#include <algorithm>
#include <atomic>
#include <map>

#include <lockstep/base/failure.hpp>

namespace lockstep {
namespace {

thread_local constinit std::string_view current_label;

constexpr std::size_t labels_listed = 5;

std::string in_words(std::int64_t bytes) {
  if (bytes >= std::int64_t{1} << 20U) return std::to_string(bytes >> 20U) + " MiB";
  if (bytes >= 1024) return std::to_string(bytes >> 10U) + " KiB";
  return std::to_string(bytes) + " bytes";
}

/// Made at the first request, unless that throws. Never destroyed: tensors may outlive main().
class ProcessAllocator {
 public:
  CachingAllocator& get(DeviceType type, Device device) {
    if (CachingAllocator* const made = made_.load(std::memory_order_acquire)) return *made;
    const std::lock_guard lock(mutex_);
    if (!made_) made_ = new CachingAllocator(runtime_of(type), device);
    return *made_;
  }

 private:
  std::mutex mutex_;
  std::atomic<CachingAllocator*> made_ = nullptr;
};

}  // namespace

MemoryLabel::MemoryLabel(std::string_view label) noexcept
    : before_(std::exchange(current_label, label)) {}

MemoryLabel::~MemoryLabel() { current_label = before_; }

CachingAllocator& CachingAllocator::of(Device device) {
  static auto& all = *new std::array<ProcessAllocator, device_slots>;
  return all[slot_of(device)].get(device.type, device);
}

CachingAllocator& CachingAllocator::pinned(DeviceType type) {
  static auto& all = *new std::array<ProcessAllocator, 3>;
  return all.at(static_cast<std::size_t>(type)).get(type, Device{});
}

CachingAllocator::CachingAllocator(DeviceRuntime& runtime, Device device)
    : runtime_(runtime), device_(device) {
  if (is_pinned()) return;
  const int count = runtime.device_count();
  if (device.index < 0 || device.index >= count) {
    throw InputError("there is no device " + to_string(device) + ": this process sees " +
                     std::to_string(count) + " of this type");
  }
}

CachingAllocator::~CachingAllocator() {
  flush();
  for (const auto& events : free_events_) {
    for (RuntimeEvent* const event : events) runtime_.destroy(event);
  }
}

MemoryBlock* CachingAllocator::allocate(std::size_t bytes, RuntimeStream* stream) {
  const SizeClass size = SizeClass::of(bytes);
  Lock lock(mutex_);
  if (size.index >= SizeClass::count) refuse(bytes, lock);
  const bool is_recording = kept_for(stream, lock).pool == Pool::recording;
  if (awaiting_ && !is_recording) keep_completed(lock);
  MemoryBlock* block = take_kept(size, stream, lock);
  if (!block && is_recording) refuse_in_capture(size.bytes);
  if (!block) block = take_new(size, stream, lock);
  block->in_use = true;
  set_label(*block, lock);
  stats_.peak_in_use = std::max(stats_.peak_in_use, stats_.in_use);
  return block;
}

CachingAllocator::Kept& CachingAllocator::kept_for(RuntimeStream* stream, const Lock& /*lock*/) {
  for (auto& [owner, kept] : kept_) {
    if (owner == stream) return *kept;
  }
  return *kept_.emplace_back(stream, std::make_unique<Kept>()).second;
}

void CachingAllocator::set_pool(RuntimeStream* stream, Pool pool) {
  const Lock lock(mutex_);
  Kept& kept = kept_for(stream, lock);
  sealed_ += (pool == Pool::sealed ? 1 : 0) - (kept.pool == Pool::sealed ? 1 : 0);
  kept.pool = pool;
}

bool CachingAllocator::is_sealed(RuntimeStream* stream) noexcept {
  if (sealed_ == 0) return false;
  const Lock lock(mutex_);
  return kept_for(stream, lock).pool == Pool::sealed;
}

MemoryBlock* CachingAllocator::take_kept(const SizeClass& size, RuntimeStream* stream,
                                         const Lock& lock) {
  MemoryBlock*& first = kept_for(stream, lock).lists[static_cast<std::size_t>(size.index)];
  if (!first) return nullptr;
  MemoryBlock* const block = std::exchange(first, first->next);
  stats_.cached -= static_cast<std::int64_t>(block->bytes);
  stats_.in_use += static_cast<std::int64_t>(block->bytes);
  return block;
}

MemoryBlock* CachingAllocator::take_new(const SizeClass& size, RuntimeStream* stream, Lock& lock) {
  void* data = from_runtime(size.bytes, lock);
  if (!data) {
    ++stats_.flushes;
    wait_for_awaiting(lock);
    give_back_kept(lock);
    data = from_runtime(size.bytes, lock);
  }
  if (!data) refuse(size.bytes, lock);
  MemoryBlock* block = empty_;
  if (block) {
    empty_ = block->next;
  } else {
    block = blocks_.emplace_back(std::make_unique<MemoryBlock>()).get();
  }
  block->data = data;
  block->kernel_data = runtime_.kernel_address(data);
  block->bytes = size.bytes;
  block->size_class = size.index;
  block->stream = stream;
  block->label.fill('\0');
  return block;
}

/// Null if the runtime has no memory or the limit is reached. The memory returned counts as in use.
void* CachingAllocator::from_runtime(std::size_t bytes, Lock& lock) {
  const auto more = static_cast<std::int64_t>(bytes);
  const std::int64_t held = stats_.in_use + stats_.cached + stats_.awaiting;
  if (stats_.limit > 0 && held + more > stats_.limit) return nullptr;
  stats_.in_use += more;
  lock.unlock();
  void* data = nullptr;
  try {
    data = is_pinned() ? runtime_.allocate_pinned(bytes) : runtime_.allocate(device_.index, bytes);
  } catch (...) {
    lock.lock();
    stats_.in_use -= more;
    throw;
  }
  lock.lock();
  ++stats_.system_allocations;
  if (!data) stats_.in_use -= more;
  return data;
}

void CachingAllocator::set_label(MemoryBlock& block, const Lock& /*lock*/) {
  const std::string_view label = current_label.substr(0, block.label.size() - 1);
  if (label == block.label.data()) return;
  block.label.fill('\0');
  std::ranges::copy(label, block.label.begin());
  runtime_.set_label(block.data, label);
}

void CachingAllocator::free(MemoryBlock* block) noexcept {
  const bool is_used_elsewhere = !block->uses.empty();
  if (is_used_elsewhere) {
    mark_uses(*block);
  } else {
    retire(*block);
  }
  const Lock lock(mutex_);
  block->in_use = false;
  stats_.in_use -= static_cast<std::int64_t>(block->bytes);
  if (!is_used_elsewhere) return keep(*block, lock);
  stats_.awaiting += static_cast<std::int64_t>(block->bytes);
  block->next = std::exchange(awaiting_, block);
}

void CachingAllocator::record_stream(MemoryBlock* block, RuntimeStream* stream, int device) {
  const Lock lock(mutex_);
  if (stream == block->stream) return;
  for (const auto& use : block->uses) {
    if (use.stream == stream) return;
  }
  block->uses.push_back({stream, device, nullptr});
}

/// Cannot fail: the list was made when the block was allocated.
void CachingAllocator::keep(MemoryBlock& block, const Lock& lock) noexcept {
  MemoryBlock*& first =
      kept_for(block.stream, lock).lists[static_cast<std::size_t>(block.size_class)];
  block.next = std::exchange(first, &block);
  stats_.cached += static_cast<std::int64_t>(block.bytes);
}

/// Records an event behind the work so far on each other stream that uses the block.
void CachingAllocator::mark_uses(MemoryBlock& block) noexcept {
  for (auto& use : block.uses) {
    try {
      auto& events = free_events_[static_cast<std::size_t>(use.device)];
      {
        const Lock lock(mutex_);
        if (!events.empty()) {
          use.event = events.back();
          events.pop_back();
        }
      }
      if (!use.event) use.event = runtime_.make_event(use.device, false);
      runtime_.record(use.event, use.stream);
    } catch (...) {  // the device has failed: there is nothing left to wait for
      continue;
    }
  }
}

bool CachingAllocator::is_over(const MemoryBlock& block) const noexcept {
  return std::ranges::all_of(block.uses, [this](const MemoryBlock::Use& use) {
    try {
      return !use.event || runtime_.is_over(use.event);
    } catch (...) {  // the device has failed
      return true;
    }
  });
}

void CachingAllocator::end_uses(MemoryBlock& block, const Lock& /*lock*/) noexcept {
  for (const auto& use : block.uses) {
    if (use.event) free_events_[static_cast<std::size_t>(use.device)].push_back(use.event);
  }
  block.uses.clear();
  stats_.awaiting -= static_cast<std::int64_t>(block.bytes);
}

void CachingAllocator::retire(const MemoryBlock& block) noexcept {
  if (is_pinned() || is_sealed(block.stream)) return;
  try {
    runtime_.retire(block.data, block.bytes, block.stream);
  } catch (...) {  // the device has failed: its next call reports it
    return;
  }
}

void CachingAllocator::keep_completed(Lock& lock) {
  MemoryBlock* over = nullptr;
  for (MemoryBlock** at = &awaiting_; *at;) {
    if (is_over(**at)) {
      MemoryBlock* const block = std::exchange(*at, (*at)->next);
      end_uses(*block, lock);
      block->next = std::exchange(over, block);
    } else {
      at = &(*at)->next;
    }
  }
  if (!over) return;
  lock.unlock();  // may wait for a full queue
  for (const MemoryBlock* block = over; block; block = block->next) retire(*block);
  lock.lock();
  while (over) {
    MemoryBlock& block = *std::exchange(over, over->next);
    keep(block, lock);
  }
}

void CachingAllocator::wait_for_awaiting(Lock& lock) {
  MemoryBlock* blocks = std::exchange(awaiting_, nullptr);
  lock.unlock();
  for (const MemoryBlock* block = blocks; block; block = block->next) {
    for (const auto& use : block->uses) {
      try {
        if (use.event) runtime_.synchronize(use.event);
      } catch (const DeviceError&) {  // the device executes nothing any more
        continue;
      }
    }
  }
  lock.lock();
  while (blocks) {
    MemoryBlock& block = *std::exchange(blocks, blocks->next);
    end_uses(block, lock);
    keep(block, lock);
  }
}

void CachingAllocator::give_back_kept(Lock& lock) noexcept {
  MemoryBlock* blocks = nullptr;
  for (auto& [stream, kept] : kept_) {
    if (kept->pool != Pool::shared) continue;
    for (MemoryBlock*& first : kept->lists) {
      while (first) {
        MemoryBlock* const block = std::exchange(first, first->next);
        stats_.cached -= static_cast<std::int64_t>(block->bytes);
        block->next = std::exchange(blocks, block);
      }
    }
  }
  lock.unlock();  // the runtime waits for the device
  for (const MemoryBlock* block = blocks; block; block = block->next) {
    if (is_pinned()) {
      runtime_.free_pinned(block->data);
    } else {
      runtime_.free(device_.index, block->data);
    }
  }
  lock.lock();
  while (blocks) {
    MemoryBlock& block = *std::exchange(blocks, blocks->next);
    block.data = block.kernel_data = nullptr;
    block.next = std::exchange(empty_, &block);
  }
}

void CachingAllocator::flush() {
  Lock lock(mutex_);
  wait_for_awaiting(lock);
  give_back_kept(lock);
}

void CachingAllocator::set_limit(std::size_t bytes) {
  const Lock lock(mutex_);
  stats_.limit = static_cast<std::int64_t>(bytes);
}

MemoryStats CachingAllocator::stats() {
  const Lock lock(mutex_);
  return stats_;
}

std::string CachingAllocator::usage() {
  const Lock lock(mutex_);
  return usage(lock);
}

std::string CachingAllocator::name() const {
  return is_pinned() ? "pinned memory" : to_string(device_);
}

std::string CachingAllocator::usage(const Lock& /*lock*/) const {
  std::map<std::string, std::int64_t> held;
  for (const auto& block : blocks_) {
    if (block->in_use) held[block->label.data()] += static_cast<std::int64_t>(block->bytes);
  }
  std::vector<std::pair<std::string, std::int64_t>> most(held.begin(), held.end());
  std::ranges::stable_sort(most, std::ranges::greater(), [](const auto& h) { return h.second; });
  std::string text = name() + " holds " + in_words(stats_.in_use);
  std::int64_t rest = 0;
  for (std::size_t i = 0; i < most.size(); ++i) {
    const auto& [label, bytes] = most[i];
    if (i >= labels_listed) {
      rest += bytes;
      continue;
    }
    text += (i == 0 ? ": " : ", ") + in_words(bytes) +
            (label.empty() ? std::string(" without a label") : " of '" + label + "'");
  }
  if (rest > 0) text += ", " + in_words(rest) + " of others";
  text += "; " + in_words(stats_.cached + stats_.awaiting) + " are kept for reuse";
  return text;
}

void CachingAllocator::refuse_in_capture(std::size_t bytes) const {
  throw Error("a captured graph asks " + to_string(device_) + " for " +
              in_words(static_cast<std::int64_t>(bytes)) +
              " more than its warm-up left: run the same work with DeviceGraph::warm_up() before");
}

void CachingAllocator::refuse(std::size_t bytes, const Lock& lock) const {
  std::string limit;
  if (stats_.limit > 0) limit = " within the limit of " + in_words(stats_.limit);
  throw OutOfMemoryError("out of memory: " + in_words(static_cast<std::int64_t>(bytes)) +
                         " for one tensor on " + name() + " could not be had" + limit + ". " +
                         usage(lock) + ". Use a smaller batch, or more ranks.");
}

}  // namespace lockstep
