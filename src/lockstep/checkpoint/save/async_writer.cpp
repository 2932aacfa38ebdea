#include <lockstep/checkpoint/save/async_writer.hpp>

#include <fmt/format.h>

#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include <lockstep/base/clock.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/base/rank.hpp>
#include <lockstep/base/trace.hpp>
#include <lockstep/checkpoint/save/saving.hpp>
#include <lockstep/comm/thread_level.hpp>

namespace lockstep {
namespace {

/// Interval at which a thread that waits for others checks whether it still should.
constexpr std::chrono::milliseconds between_looks{100};

struct Job {
  StagedSave save;
  AsyncCheckpointWriter::Published published;
  std::promise<SaveReport> promise;
  Clock::time_point start;
  double blocked_seconds = 0;
};

}  // namespace

/// State shared by a rank's thread and its owner. The thread keeps it alive: a thread inside a
/// hanging file system call cannot be joined.
class AsyncCheckpointWriter::Thread : public std::enable_shared_from_this<Thread> {
 public:
  explicit Thread(std::shared_ptr<ProcessGroup> group) : group_(std::move(group)) {}

  [[nodiscard]] StagingBuffer& buffer() { return buffer_; }
  [[nodiscard]] ProcessGroup& group() { return *group_; }

  [[nodiscard]] bool has_begun() const { return worker_.joinable(); }

  /// Starts the thread, unless it runs already.
  void begin() {
    if (has_begun()) return;
    const std::lock_guard lock(mutex_);
    worker_ = std::thread([self = shared_from_this(), rank = thread_rank()] {
      const ThreadRank identity(rank);
      name_thread("checkpoint");
      self->run();
    });
    runs_ = true;
  }

  void take(Job&& job) {
    {
      const std::lock_guard lock(mutex_);
      job_.emplace(std::move(job));
    }
    changed_.notify_all();
  }

  [[nodiscard]] bool is_busy() const {
    const std::lock_guard lock(mutex_);
    return job_.has_value();
  }

  [[nodiscard]] Seconds waits_for_others_since() const {
    const std::lock_guard lock(mutex_);
    return waits_from_ ? Clock::now() - *waits_from_ : Seconds(0);
  }

  [[nodiscard]] bool wait(std::chrono::milliseconds at_most) const {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, at_most, [&] { return !job_; });
  }

  void wait() const {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !job_; });
  }

  /// Waits for the save in progress, at most `at_most`.
  void end(std::chrono::milliseconds at_most) {
    if (!has_begun()) return;
    std::unique_lock lock(mutex_);
    const auto has_ended = [&] { return !runs_; };
    ends_ = true;
    changed_.notify_all();
    if (!changed_.wait_for(lock, at_most, has_ended)) {
      given_up_ = true;
      changed_.wait_for(lock, 2 * between_looks, has_ended);
    }
    if (!runs_) {
      lock.unlock();
      worker_.join();
    } else {
      worker_.detach();
    }
  }

 private:
  void run() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return job_ || ends_; });
      if (!job_) break;
      lock.unlock();
      finish(*job_);
      lock.lock();
      std::promise<SaveReport> promise = std::move(job_->promise);
      job_.reset();
      waits_from_.reset();
      lock.unlock();
      // The thread is ready for the next job before its result can be seen.
      if (failure_) {
        promise.set_exception(std::exchange(failure_, nullptr));
      } else {
        promise.set_value(report_);
      }
      lock.lock();
      changed_.notify_all();
    }
    runs_ = false;
    changed_.notify_all();
  }

  void finish(Job& job) noexcept {
    const TraceScope scope("checkpoint", "save in the background");
    try {
      const WaitFor asleep = [&](Work& work) { wait_asleep(work); };
      compress_save(*group_, job.save, asleep);
      WrittenSave written = write_save(*group_, job.save, asleep);
      const std::int64_t bytes = publish_save(*group_, job.save, written, asleep);
      report_ = {bytes, seconds_since(job.start), job.blocked_seconds, job.save.not_finite};
      if (job.published && !is_given_up()) job.published(report_);
    } catch (...) {
      failure_ = std::current_exception();
    }
  }

  /// Busy polling would take the core from computing threads.
  void wait_asleep(Work& work) {
    wait_for_others_from(Clock::now());
    while (!work.wait_for(between_looks)) {
      if (is_given_up()) throw CommError("a save was abandoned: its writer no longer exists");
    }
    wait_for_others_from(std::nullopt);
  }

  void wait_for_others_from(std::optional<Clock::time_point> now) {
    const std::lock_guard lock(mutex_);
    waits_from_ = now;
  }

  [[nodiscard]] bool is_given_up() const {
    const std::lock_guard lock(mutex_);
    return given_up_;
  }

  const std::shared_ptr<ProcessGroup> group_;
  std::thread worker_;          // owned by the owner
  StagingBuffer buffer_;        // owned by the owner while there is no job, else by the thread
  SaveReport report_;           // owned by the thread
  std::exception_ptr failure_;  // owned by the thread
  mutable std::mutex mutex_;    // guards the members below
  mutable std::condition_variable changed_;
  std::optional<Job> job_;                       // in progress; the thread owns its contents
  std::optional<Clock::time_point> waits_from_;  // waiting for other ranks
  bool runs_ = false, ends_ = false, given_up_ = false;
};

AsyncCheckpointWriter::AsyncCheckpointWriter(ProcessGroup& group,
                                             std::chrono::milliseconds time_to_end,
                                             Compression compression)
    : time_to_end_(time_to_end), compression_(compression) {
  if (!threads_may_communicate(group)) {
    throw InputError(
        "asynchronous saving needs MPI_THREAD_MULTIPLE: initialise MPI with it, or save with "
        "CheckpointWriter");
  }
  thread_ = std::make_shared<Thread>(group.split(0, group.rank()));
}

AsyncCheckpointWriter::~AsyncCheckpointWriter() { thread_->end(time_to_end_); }

void AsyncCheckpointWriter::reserve(const StateDict& model, const StateDict& optimizer) {
  // Replicated state is split evenly, to within a slab; of sharded state each rank stages its own.
  std::int64_t replicated = 0, own = 0;
  for (const StateDict* state : {&model, &optimizer}) {
    for (const auto& entry : *state) {
      const auto bytes = static_cast<std::int64_t>(entry.tensor.bytes());
      (entry.placement.sharded ? own : replicated) += bytes;
    }
  }
  thread_->wait();
  thread_->buffer().reserve(replicated / thread_->group().size() + own + 2 * slab_bytes);
}

std::future<SaveReport> AsyncCheckpointWriter::save(ProcessGroup& group,
                                                    const std::filesystem::path& path,
                                                    const CheckpointContents& contents,
                                                    NotFinite not_finite, Published published,
                                                    MayWrite may_write) {
  thread_->wait();
  const auto start = Clock::now();
  if (!have_begun_) begin_together(group, path);
  Job job;
  SavePlan plan = plan_save(group, path, contents, compression_);
  plan.may_write = std::move(may_write);
  job.save = stage_save(group, std::move(plan), not_finite, &thread_->buffer());
  job.published = std::move(published);
  job.start = start;
  job.blocked_seconds = seconds_since(start);
  auto report = job.promise.get_future();
  thread_->take(std::move(job));
  return report;
}

void AsyncCheckpointWriter::begin_together(ProcessGroup& group, const std::filesystem::path& path) {
  const auto begin = [&] {
    try {
      thread_->begin();
    } catch (const std::exception& e) {
      throw CheckpointError(fmt::format("cannot start a thread for it: {}", e.what()));
    }
  };
  agree(group, begin, refuse_with(not_written(path)));
  have_begun_ = true;
}

bool AsyncCheckpointWriter::is_busy() const { return thread_->is_busy(); }

bool AsyncCheckpointWriter::wait(std::chrono::milliseconds at_most) const {
  return thread_->wait(at_most);
}

Seconds AsyncCheckpointWriter::waits_for_others_since() const {
  return thread_->waits_for_others_since();
}

void AsyncCheckpointWriter::close() {
  thread_->wait();
  thread_->group().close();
}

}  // namespace lockstep
