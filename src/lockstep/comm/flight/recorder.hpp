#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <span>
#include <string>

#include <lockstep/base/descriptor.hpp>
#include <lockstep/base/failure.hpp>
#include <lockstep/comm/flight/format.hpp>

namespace lockstep {

struct Operation;

/// The ring file's name, and its data about this process.
struct FlightIdentity {
  std::uint64_t job = 0;  ///< the same on all ranks of a job, different for every job
  int rank = 0, size = 1;
};

/// This process's flight recorder: its newest operations in a file that is mapped into memory, so
/// that they can be read by others while it is stopped and after it was killed. It exists as long
/// as any MPI group is open; the last group to close removes the file. Thread-safe.
class FlightRecorder {
 public:
  /// The process's recorder, made in a node-local folder if there is none. nullptr, with one
  /// warning, if no folder is usable: `dir`, or if that is empty $TMPDIR, else /dev/shm.
  static std::shared_ptr<FlightRecorder> open(const FlightIdentity& identity,
                                              const std::string& dir);
  /// nullptr if there is none.
  static std::shared_ptr<FlightRecorder> current() noexcept;

  ~FlightRecorder();
  FlightRecorder(const FlightRecorder&) = delete;
  FlightRecorder& operator=(const FlightRecorder&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }
  [[nodiscard]] std::uint64_t job() const noexcept { return header_->job; }
  [[nodiscard]] int rank() const noexcept { return header_->rank; }
  [[nodiscard]] int size() const noexcept { return header_->size; }

  /// A number that no group of this process has in its table: the members of a new group take the
  /// largest of theirs.
  [[nodiscard]] static std::uint64_t next_group_number() noexcept;
  /// Adds a group to the table; returns its index, or -1 if the table is full of open groups.
  [[nodiscard]] int add_group(std::uint64_t number, std::span<const int> members) noexcept;
  void name_group(int group, const char* name) noexcept;
  void close_group(int group) noexcept;

  /// Notes that this rank starts an operation; the record's ticket.
  [[nodiscard]] std::uint64_t entered(int group, const Operation& operation) noexcept;
  void agreed(std::uint64_t ticket) noexcept;
  void completed(std::uint64_t ticket) noexcept;

  /// Notes why this rank gives up.
  void say_last_words(const Failure& failure) noexcept;

 private:
  FlightRecorder(std::filesystem::path path, Descriptor file, std::byte* memory) noexcept;
  static std::shared_ptr<FlightRecorder> make(const FlightIdentity& identity,
                                              const std::string& dir);
  void introduce(const FlightIdentity& identity);
  [[nodiscard]] flight::Record* find(std::uint64_t ticket) noexcept;

  std::filesystem::path path_;
  Descriptor file_;  ///< so that a dying process is seen to let go of it before its connections
  std::byte* memory_;
  flight::Header* header_;
  flight::Group* groups_;
  flight::Record* records_;
  std::mutex table_;
};

/// One group's part of the recorder. A default-made one records nothing.
class FlightLog {
 public:
  FlightLog() = default;
  FlightLog(std::shared_ptr<FlightRecorder> recorder, int group) noexcept
      : recorder_(std::move(recorder)), group_(group) {}
  FlightLog(FlightLog&&) noexcept = default;
  FlightLog& operator=(FlightLog&& other) noexcept {
    close();
    recorder_ = std::move(other.recorder_);
    group_ = other.group_;
    return *this;
  }
  ~FlightLog() { close(); }

  void take_name(const char* name) const noexcept {
    if (recorder_) recorder_->name_group(group_, name);
  }
  [[nodiscard]] std::uint64_t entered(const Operation& operation) const noexcept {
    return recorder_ ? recorder_->entered(group_, operation) : 0;
  }
  void agreed(std::uint64_t ticket) const noexcept {
    if (recorder_) recorder_->agreed(ticket);
  }
  void completed(std::uint64_t ticket) const noexcept {
    if (recorder_) recorder_->completed(ticket);
  }

 private:
  void close() noexcept {
    if (recorder_) recorder_->close_group(group_);
    recorder_.reset();
  }

  std::shared_ptr<FlightRecorder> recorder_;
  int group_ = -1;
};

}  // namespace lockstep
