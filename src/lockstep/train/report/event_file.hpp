#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include <lockstep/io/appended_file.hpp>
#include <lockstep/train/report/histogram.hpp>

namespace lockstep::train {

/// Values of one step for TensorBoard, encoded as the protocol buffer message Summary.
class EventSummary {
 public:
  void add_scalar(std::string_view tag, double value);  ///< in f32
  /// Markdown.
  void add_text(std::string_view tag, std::string_view text);
  void add_histogram(std::string_view tag, const Histogram& values);
  [[nodiscard]] const std::string& encoded() const noexcept { return encoded_; }

 private:
  void add_value(std::string_view tag, std::string_view rest);
  std::string encoded_;
};

/// A file of TensorBoard's events: TFRecords (tensorflow/core/lib/io/record_writer.cc) of messages
/// Event (tensorflow/core/util/event.proto). The encoder is our own: these few fields take less
/// code than the library of protocol buffers takes of a build, and programs that link another
/// version of that library stay free of ours. No error of the disk ends a training: text that
/// cannot be written waits, up to `most_unwritten` bytes, and is dropped beyond; each is one
/// warning.
class EventFile {
 public:
  static constexpr std::size_t most_unwritten = std::size_t{4} << 20;

  /// A new file in `folder`, which readers read after those that are there already (their names
  /// begin with events.out.tfevents). From then on they forget events of `purge_step` and later
  /// steps in those files.
  EventFile(std::filesystem::path folder, std::int64_t purge_step);

  void add(std::int64_t step, const EventSummary& summary);
  /// Writes the added events.
  void flush();
  /// Whether the folder has files of events.
  [[nodiscard]] static bool are_in(const std::filesystem::path& folder);

 private:
  void open();
  void add_event(std::int64_t step, std::string_view what);
  void warn(const std::string& why);

  std::filesystem::path folder_;
  std::int64_t purge_step_, newest_step_ = 0;
  AppendedFile file_;
  std::string waiting_;  ///< records until there is a file
  bool is_warned_of_ = false;
};

}  // namespace lockstep::train
