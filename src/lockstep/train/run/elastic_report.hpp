#pragma once
#include <atomic>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include <lockstep/train/run/stop_request.hpp>

namespace lockstep::train {

/// Tells `lockstep elastic` about a program with a training loop of its own: that it is up, how far
/// it is, and how it ended. In the supervisor's folder it writes program.json, and flight/where
/// (note_flight). Of rank 0; local. A thread writes, four times a second at most, so that a step
/// waits for no file system.
///   program.json: {"steps_made": of this start, "step": .., "checkpoints": FOLDER,
///                  "completed": .., "stopped_early": .., "stopped_by": "SIGUSR1"}
class ElasticReport {
 public:
  /// The environment variable by which the supervisor names its folder.
  static constexpr const char* folder_variable = "LOCKSTEP_ELASTIC";
  static constexpr const char* file_name = "program.json";

  /// nullptr if no supervisor has started this process. `checkpoints`: the program's folder of
  /// them; may be empty. Throws FileError where the supervisor's folder cannot be written.
  static std::unique_ptr<ElasticReport> open(const std::filesystem::path& checkpoints);
  explicit ElasticReport(std::filesystem::path folder, const std::filesystem::path& checkpoints);
  ~ElasticReport();
  ElasticReport(const ElasticReport&) = delete;
  ElasticReport& operator=(const ElasticReport&) = delete;

  /// Another step is done. Allocates nothing.
  void made_step(std::int64_t step) noexcept;
  /// The program ends: it has done all, or has saved and stopped. A failure is a warning.
  void end(bool is_complete, StopReason stopped_by);

 private:
  void watch(const std::stop_token& over);
  void write();

  std::filesystem::path folder_;
  std::string checkpoints_;
  std::atomic<std::int64_t> steps_made_{0}, step_{0};
  std::mutex writing_;
  std::int64_t told_ = -1;  ///< steps_made_ in the file
  bool is_complete_ = false, has_ended_ = false;
  StopReason stopped_by_ = StopReason::none;
  std::jthread thread_;
};

}  // namespace lockstep::train
