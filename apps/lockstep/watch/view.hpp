#pragma once
// A run as it is now, in lines of text.
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <lockstep/train/report/metrics_reader.hpp>

#include "report/curves.hpp"
#include "report/run_record.hpp"

namespace lockstep::watch {

/// Reads a run folder again and again, of metrics.jsonl only new lines.
class View {
 public:
  explicit View(std::filesystem::path folder);

  /// Throws InputError as report::read_run() does.
  void update();

  [[nodiscard]] report::RunState state() const;
  /// All of it in one line, without figures that change by time alone.
  [[nodiscard]] std::string line() const;
  /// The same and curves, in at most `rows` lines of at most `columns` characters.
  [[nodiscard]] std::vector<std::string> lines(int columns, int rows) const;

 private:
  /// A summary of an earlier start is not this one's.
  [[nodiscard]] bool ended_without_summary() const;
  [[nodiscard]] std::string state_in_words() const;
  [[nodiscard]] std::string progress() const;
  [[nodiscard]] std::string figures() const;  ///< losses and metrics
  [[nodiscard]] std::string speed() const;
  [[nodiscard]] std::string slowest() const;
  [[nodiscard]] std::string checkpoint() const;
  [[nodiscard]] std::string restarts() const;
  [[nodiscard]] std::int64_t step() const;

  std::filesystem::path folder_;
  train::MetricsReader reader_;
  report::Curves curves_;
  report::RunRecord run_;
  bool was_going_on_ = false;
};

/// At most `columns` characters of a text that may hold any bytes, as a terminal may show them.
[[nodiscard]] std::string cut(const std::string& text, int columns);

/// "45 s", "3 min 20 s", "2 h 5 min", "3 d 4 h".
[[nodiscard]] std::string duration_in_words(double seconds);

}  // namespace lockstep::watch
