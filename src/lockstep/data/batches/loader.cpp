#include <lockstep/data/batches/loader.hpp>

#include <fmt/format.h>

#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include <lockstep/base/clock.hpp>
#include <lockstep/base/expect_given.hpp>
#include <lockstep/base/failure.hpp>
#include <lockstep/base/rank.hpp>
#include <lockstep/base/trace.hpp>
#include <lockstep/tensor/runtime/caching_allocator.hpp>
#include <lockstep/tensor/stream.hpp>

namespace lockstep {

// Step s lies in ring[s % ring.size()]. After `taken` steps were given out, the caller still reads
// step taken - 1, so the thread may load steps below taken - 1 + ring.size().
struct Loader::State {
  State(std::shared_ptr<const Dataset> data, std::unique_ptr<BatchSource> source,
        std::int64_t buffers, BatchTransforms changes, Device device)
      : dataset(std::move(data)),
        batches(std::move(source)),
        transforms(std::move(changes)),
        steps(batches->steps()) {
    static_cast<void>(current_stream(device));  // pinned memory belongs to a device in use
    for (std::int64_t i = 0; i < buffers; ++i) {
      if (device.type == DeviceType::host) {
        ring.emplace_back(*dataset, batches->largest_batch());
      } else {
        ring.push_back(Batch::pinned(*dataset, batches->largest_batch(), device.type));
      }
    }
    if (device.type != DeviceType::host)
      copies = std::make_unique<Copies>(*dataset, ring, batches->largest_batch(), device);
  }

  /// Copies the ring's batches to a device: from pinned memory, on a stream of its own. Events
  /// order this stream and the caller's in both directions.
  struct Copies {
    Copies(const Dataset& dataset, const std::vector<Batch>& ring, std::int64_t capacity,
           Device where)
        : device(where), stream(Stream::from_pool(where)) {
      const MemoryLabel label("batches");
      for (std::size_t i = 0; i < ring.size(); ++i) {
        there.emplace_back(dataset, capacity, device).record_stream(stream);
        arrived.emplace_back(device);
        used.emplace_back(device);
      }
      let_go();
    }

    /// The caller's earlier work may use any of the batches.
    void let_go() {
      for (DeviceEvent& event : used) event.record(current_stream(device));
    }
    void let_go(std::size_t slot) { used[slot].record(current_stream(device)); }
    /// Called by the loading thread before it writes into a slot: waits for the slot's last copy.
    void wait_for_copy(std::size_t slot) const { arrived[slot].synchronize(); }
    /// Called by the loading thread.
    void send(const Batch& batch, std::size_t slot) {
      const StreamGuard guard(stream);
      stream.wait(used[slot]);
      there[slot].copy_from(batch);
      arrived[slot].record(stream);
    }
    const Batch& take(std::size_t slot) {
      current_stream(device).wait(arrived[slot]);
      return there[slot];
    }

    Device device;
    Stream stream;
    std::vector<Batch> there;
    std::deque<DeviceEvent> arrived, used;
  };

  [[nodiscard]] std::size_t slot_of(std::int64_t step) const {
    return static_cast<std::size_t>(step) % ring.size();
  }
  [[nodiscard]] Batch& slot(std::int64_t step) { return ring[slot_of(step)]; }

  // Whether the thread has work. Before an epoch's first next() the caller holds no batch.
  [[nodiscard]] bool may_load() const {
    const std::int64_t held = taken > first ? taken - 1 : taken;
    return running && loaded < steps && loaded < held + static_cast<std::int64_t>(ring.size());
  }

  void load_forever() {
    std::unique_lock lock(mutex);
    while (true) {
      work.wait(lock, [&] { return stopping || may_load(); });
      if (stopping) return;
      busy = true;
      const std::int64_t step = loaded;
      const bool begins = std::exchange(epoch_begins, false);
      lock.unlock();
      std::exception_ptr problem = load(step, begins);
      lock.lock();
      failure = std::move(problem);
      busy = false;
      if (failure) {
        running = false;
      } else {
        ++loaded;
      }
      ready.notify_one();
    }
  }

  // Without the lock: while busy, no other thread touches the source or this step's slot.
  std::exception_ptr load(std::int64_t step, bool begins) noexcept {
    const TraceScope scope("loader", "load batch", nullptr, step);
    try {
      if (begins) batches->start_epoch(epoch);
      if (copies) copies->wait_for_copy(slot_of(step));
      if (batches->evaluates()) {
        dataset->load(batches->indices(step), slot(step));
      } else {
        dataset->load_varied(batches->indices(step), epoch, slot(step));
      }
      for (const auto& transform : transforms) transform->apply(slot(step), epoch);
      if (copies) copies->send(slot(step), slot_of(step));
      return nullptr;
    } catch (...) {
      return std::current_exception();
    }
  }

  [[noreturn]] void throw_failure(std::int64_t step) const {
    const auto cause = failure_of([&] { std::rethrow_exception(failure); });
    const std::string sentence =
        fmt::format("loading step {} of epoch {} failed: {}", step + 1, epoch + 1, cause->message);
    if (cause->kind == FailureKind::out_of_memory) throw OutOfMemoryError(sentence);
    throw Error(sentence, cause->code);
  }

  const std::shared_ptr<const Dataset> dataset;
  const std::unique_ptr<BatchSource> batches;
  const BatchTransforms transforms;
  const std::int64_t steps;
  std::vector<Batch> ring;
  std::unique_ptr<Copies> copies;  // null: batches stay on the host
  double waited = 0.0;

  std::mutex mutex;                     // guards the members below
  std::condition_variable work, ready;  // signals the thread; signals the caller
  bool stopping = false;
  bool running = false;  // in an epoch without a failure
  bool busy = false;     // the thread is loading step `loaded`
  bool epoch_begins = false;
  std::int64_t epoch = 0;   // changed only while the thread is not busy
  std::int64_t first = 0;   // first step of the epoch's range
  std::int64_t loaded = 0;  // steps below are in the ring
  std::int64_t taken = 0;   // steps below were given out; written only by the caller
  std::exception_ptr failure;

  std::thread thread;
};

Loader::Loader(std::shared_ptr<const Dataset> dataset, std::unique_ptr<BatchSource> batches,
               std::int64_t prefetch, BatchTransforms transforms, Device device) {
  if (prefetch < 1) {
    throw InputError(
        fmt::format("the loader was given {} buffers (data.prefetch); it needs at least 1, and 2 "
                    "to load ahead.",
                    prefetch));
  }
  for (const auto& transform : transforms) expect_given("Loader", "a transform", transform);
  state_ =
      std::make_unique<State>(expect_given("Loader", "the data set", std::move(dataset)),
                              expect_given("Loader", "the source of batches", std::move(batches)),
                              prefetch, std::move(transforms), device);
  state_->first = state_->loaded = state_->taken = state_->steps;
  state_->thread = std::thread([state = state_.get(), rank = thread_rank()] {
    const ThreadRank works_for(rank);
    name_thread("loader");
    state->load_forever();
  });
}

Loader::~Loader() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->stopping = true;
  }
  state_->work.notify_one();
  state_->thread.join();
}

void Loader::start_epoch(std::int64_t epoch, std::int64_t first_step) {
  State& s = *state_;
  if (first_step < 0 || first_step > s.steps) {
    throw Error(fmt::format("an epoch of {} steps cannot start at step {}", s.steps, first_step));
  }
  {
    std::unique_lock lock(s.mutex);
    s.running = false;
    s.ready.wait(lock, [&] { return !s.busy; });
    if (s.copies) s.copies->let_go();
    s.failure = nullptr;
    s.epoch = epoch;
    s.first = s.loaded = s.taken = first_step;
    s.epoch_begins = true;
    s.running = true;
  }
  s.work.notify_one();
}

std::int64_t Loader::steps() const noexcept { return state_->steps; }
bool Loader::has_next() const noexcept { return state_->taken < state_->steps; }
std::int64_t Loader::next_step() const noexcept { return state_->taken; }
double Loader::seconds_waited() const noexcept { return state_->waited; }

const Batch& Loader::next() {
  State& s = *state_;
  if (!has_next()) {
    throw Error(
        fmt::format("the epoch of {} steps is over: call start_epoch for the next one", s.steps));
  }
  const std::int64_t step = s.taken;
  {
    std::unique_lock lock(s.mutex);
    const auto arrived = [&] { return s.loaded > step || s.failure; };
    if (s.copies && step > s.first) s.copies->let_go(s.slot_of(step - 1));
    s.taken = step + 1;  // returns the batch of step - 1 to the thread
    s.work.notify_one();
    if (!arrived()) {
      const TraceScope scope("wait", "wait for batch", nullptr, step);
      const auto start = Clock::now();
      s.ready.wait(lock, arrived);
      s.waited += seconds_since(start);
    }
    if (s.loaded <= step) {
      s.taken = step;
      s.throw_failure(step);
    }
  }
  return s.copies ? s.copies->take(s.slot_of(step)) : s.slot(step);
}

}  // namespace lockstep
