#pragma once
#include <chrono>
#include <filesystem>
#include <functional>
#include <future>
#include <memory>

#include <lockstep/base/clock.hpp>
#include <lockstep/checkpoint/checkpoint.hpp>
#include <lockstep/checkpoint/save/writer.hpp>
#include <lockstep/comm/process_group.hpp>

namespace lockstep {

/// Saves in the background, as PyTorch's async_save. save() returns once this rank's part of the
/// state has been copied and hashed. A thread of each rank writes and publishes, in a group of its
/// own. Files and errors are those of CheckpointWriter.
///
/// One save at a time. The threads sleep while they wait for each other, without a deadline: a rank
/// with a slow disk delays the file, and nothing else.
class AsyncCheckpointWriter {
 public:
  /// Makes the threads' group. Collective. Throws InputError unless threads_may_communicate(group).
  explicit AsyncCheckpointWriter(ProcessGroup& group,
                                 std::chrono::milliseconds time_to_end = std::chrono::seconds(10),
                                 Compression compression = Compression::none);
  /// Waits for the save in progress, at most `time_to_end`, then gives it up: its file does not
  /// appear. Local.
  ~AsyncCheckpointWriter();
  AsyncCheckpointWriter(const AsyncCheckpointWriter&) = delete;
  AsyncCheckpointWriter& operator=(const AsyncCheckpointWriter&) = delete;

  /// Allocates the copy of this rank's part of such a state now, so that the first save does not
  /// wait for it. Local; throws Error if memory is short.
  void reserve(const StateDict& model, const StateDict& optimizer);

  /// Called after a save, on this rank's thread.
  using Published = std::function<void(const SaveReport&)>;

  /// Waits for the previous save, stages this one, and returns. The future gets its report or error
  /// once the file has its name and `published` has been called. Throws errors of staging.
  /// Collective, by the thread that uses `group`, which must be the constructor's.
  [[nodiscard]] std::future<SaveReport> save(ProcessGroup& group, const std::filesystem::path& path,
                                             const CheckpointContents& contents,
                                             NotFinite not_finite = NotFinite::refuse,
                                             Published published = {}, MayWrite may_write = {});

  /// Whether a save is in progress on this rank.
  [[nodiscard]] bool is_busy() const;
  /// Waits until no save is in progress; false if that takes longer than `at_most`. Local.
  [[nodiscard]] bool wait(std::chrono::milliseconds at_most) const;
  /// How long the save in progress has waited for other ranks; 0 while this rank works on it, and
  /// without a save. Local.
  [[nodiscard]] Seconds waits_for_others_since() const;
  /// Makes the destructor not wait. Local.
  void give_up() noexcept { time_to_end_ = std::chrono::milliseconds(0); }
  /// Waits for the save in progress, and closes the threads' group. Collective.
  void close();

 private:
  class Thread;
  /// Starts the threads that do not run yet, or throws on all ranks.
  void begin_together(ProcessGroup& group, const std::filesystem::path& path);

  std::chrono::milliseconds time_to_end_;
  Compression compression_;
  std::shared_ptr<Thread> thread_;
  bool have_begun_ = false;  // the threads of all ranks
};

}  // namespace lockstep
