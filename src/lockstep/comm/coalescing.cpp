#include <lockstep/comm/coalescing.hpp>

#include <algorithm>
#include <exception>
#include <utility>

#include <lockstep/base/clock.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/base/log.hpp>
#include <lockstep/base/pool.hpp>
#include <lockstep/comm/message_port.hpp>

namespace lockstep {
namespace {

/// Several works as one.
class Batch final : public WorkRecord {
 public:
  explicit Batch(std::vector<Work> works) : works_(std::move(works)) {}
  ~Batch() override = default;

  // A test of the first that is not over moves on everything in flight, the others too.
  bool poll() override {
    return std::ranges::all_of(works_, [](Work& work) { return work.test(); });
  }
  void wait() override {
    for (Work& work : works_) work.wait();
  }
  bool wait_for(std::chrono::microseconds at_most, std::chrono::microseconds awake) override {
    const auto start = Clock::now();
    const auto rest = [&] {
      return at_most - std::chrono::floor<std::chrono::microseconds>(Clock::now() - start);
    };
    return std::ranges::all_of(
        works_, [&](Work& work) { return MessagePort::wait_for(work, rest(), awake); });
  }
  void cancel() override {
    for (Work& work : works_) work.cancel();
  }
  void synchronize() override {
    for (Work& work : works_) work.synchronize();
  }

 private:
  void release() noexcept override { ObjectPool<Batch>::instance().recycle(this); }

  std::vector<Work> works_;
};

void log_abandoned_batch(const std::exception& error) {
  log(LogLevel::error,
      std::string("a batch of operations was left by an exception: ") + error.what());
}

Work as_one(std::vector<Work>&& works) {
  return Work(IntrusivePtr<WorkRecord>(ObjectPool<Batch>::instance().make(std::move(works))));
}

/// True for messages that a backend starts as one batch: the host launches each one separately.
bool lie_on_devices(std::span<const P2POp> messages) {
  return std::ranges::any_of(messages, [](const P2POp& message) {
    return message.tensor.device().type != DeviceType::host;
  });
}

}  // namespace

Coalescing::Coalescing(ProcessGroup& group) : group_(&group) {
  if (group.coalescing_thread_.load() != std::thread::id()) {
    throw Error("a Coalescing was made on a group that already has an open one: end that first.");
  }
  group.begin_batch();
  group.coalescing_ = this;
  group.coalescing_thread_ = std::this_thread::get_id();
}

Coalescing::~Coalescing() {
  if (!group_) return;  // ended
  try {
    static_cast<void>(end());
  } catch (const std::exception& error) {
    log_abandoned_batch(error);
  }
}

Work Coalescing::end() {
  if (!group_) throw Error("a Coalescing was ended twice.");
  ProcessGroup& group = *std::exchange(group_, nullptr);
  group.coalescing_ = nullptr;
  group.coalescing_thread_ = std::thread::id();  // last: it guards coalescing_
  group.end_batch();
  return as_one(std::move(works_));
}

// Uses no Coalescing, of which a group has one at a time, and no backend batch for host tensors:
// several threads may call this at once.
Work batch_isend_irecv(ProcessGroup& group, ListView<P2POp> messages) {
  if (group.coalescing_thread_.load() == std::this_thread::get_id()) {
    throw Error("batch_isend_irecv was called within a Coalescing of its group: end that first.");
  }
  const bool together = lie_on_devices(messages);
  if (together) group.begin_batch();
  std::vector<Work> works;
  works.reserve(messages.size());
  try {
    for (const P2POp& message : messages) {
      works.push_back(message.kind == P2POp::Kind::isend
                          ? group.isend(message.tensor, message.peer, message.tag)
                          : group.irecv(message.tensor, message.peer, message.tag));
    }
  } catch (...) {
    try {
      if (together) group.end_batch();
    } catch (const Error& error) {
      log_abandoned_batch(error);
    }
    throw;
  }
  if (together) group.end_batch();
  return as_one(std::move(works));
}

}  // namespace lockstep
