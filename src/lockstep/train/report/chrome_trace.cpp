#include <lockstep/train/report/chrome_trace.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep::train {
namespace {

/// Process ids begin at 1, because Perfetto takes 0 for the idle process.
int process_of(const TracedRank& rank) { return rank.rank + 1; }

/// A row for every thread of the file.
int thread_of(const TracedRank& rank, int number) { return process_of(rank) * 1000 + number; }

std::string json_text(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    result += static_cast<unsigned char>(c) < ' ' ? ' ' : c;
  }
  return result += '"';
}

class Writer {
 public:
  explicit Writer(const TracedRank& rank) : rank_(rank) {}

  void describe() {
    name("process_name", 0,
         json_text(
             fmt::format("rank {}{}{}", rank_.rank, rank_.host.empty() ? "" : ", ", rank_.host)));
    about("process_sort_index", 0, fmt::format("\"sort_index\":{}", rank_.rank));
    about("process_labels", 0,
          fmt::format("\"labels\":\"clock within {} us of rank 0's\"",
                      (rank_.clock_error_ns + 999) / 1000));
  }

  void add(const TraceTrack& track) {
    // Threads of other ranks also complete operations of this one, but are not its threads.
    int thread = 0;
    if (std::ranges::any_of(track.events, is_of_thread)) {
      thread = thread_of(rank_, threads_);
      name("thread_name", thread, json_text(track.thread));
      about("thread_sort_index", thread, fmt::format("\"sort_index\":{}", threads_++));
    }
    std::vector<TraceEvent> events;
    for (const TraceEvent& event : track.events) {
      if (event.end_ns + rank_.shift_ns >= rank_.from_ns) events.push_back(event);
    }
    // Outer events first, also those of one asynchronous event, which share a time.
    std::ranges::stable_sort(events, [](const TraceEvent& a, const TraceEvent& b) {
      if (a.start_ns != b.start_ns) return a.start_ns < b.start_ns;
      return a.flight != b.flight ? a.flight < b.flight : a.end_ns > b.end_ns;
    });
    for (std::size_t i = 0; i < events.size(); ++i) {
      const TraceEvent& event = events[i];
      if (event.flight == 0) {
        complete(event, is_of_thread(event) ? thread : row_of_device(event.detail));
        continue;
      }
      const bool has_inner = i + 1 < events.size() && events[i + 1].flight == event.flight;
      asynchronous(event, 'b', event.start_ns);
      if (has_inner) {
        asynchronous(events[i + 1], 'b', events[i + 1].start_ns);
        asynchronous(events[i + 1], 'e', events[i + 1].end_ns);
        ++i;
      }
      asynchronous(event, 'e', event.end_ns);
    }
  }

  [[nodiscard]] std::string take() { return std::move(text_); }

 private:
  [[nodiscard]] static bool is_of_thread(const TraceEvent& event) {
    return event.flight == 0 && std::string_view(event.category) != device_category;
  }

  /// Names are kept by address.
  int row_of_device(const char* device) {
    const auto known = std::ranges::find(devices_, device, &std::pair<const char*, int>::first);
    if (known != devices_.end()) return known->second;
    const int row = thread_of(rank_, threads_);
    name("thread_name", row, json_text(device));
    about("thread_sort_index", row, fmt::format("\"sort_index\":{}", threads_++));
    devices_.emplace_back(device, row);
    return row;
  }

  [[nodiscard]] std::back_insert_iterator<std::string> next() {
    if (!text_.empty()) text_ += ",\n";
    return std::back_inserter(text_);
  }

  void about(const char* what, int thread, const std::string& arguments) {
    fmt::format_to(next(), "{{\"name\":\"{}\",\"ph\":\"M\",\"pid\":{},\"tid\":{},\"args\":{{{}}}}}",
                   what, process_of(rank_), thread, arguments);
  }
  void name(const char* what, int thread, const std::string& text) {
    about(what, thread, "\"name\":" + text);
  }

  [[nodiscard]] static std::string name_of(const TraceEvent& event) {
    return json_text(event.number < 0 ? std::string(event.name)
                                      : fmt::format("{} {}", event.name, event.number));
  }
  [[nodiscard]] static std::string arguments_of(const TraceEvent& event) {
    std::string arguments;
    if (event.detail) arguments += "\"of\":" + json_text(event.detail);
    if (event.bytes >= 0)
      arguments += fmt::format("{}\"bytes\":{}", arguments.empty() ? "" : ",", event.bytes);
    return arguments.empty() ? "" : fmt::format(",\"args\":{{{}}}", arguments);
  }

  /// Microseconds with three decimals, as text, so that nothing is rounded.
  static std::string microseconds(std::int64_t ns) {
    const char* sign = ns < 0 ? "-" : "";
    const std::int64_t size = ns < 0 ? -ns : ns;
    return fmt::format("{}{}.{:03}", sign, size / 1000, size % 1000);
  }

  void complete(const TraceEvent& event, int thread) {
    fmt::format_to(
        next(),
        "{{\"name\":{},\"cat\":\"{}\",\"ph\":\"X\",\"ts\":{},\"dur\":{},\"pid\":{},\"tid\":{}{}}}",
        name_of(event), event.category, microseconds(event.start_ns + rank_.shift_ns),
        microseconds(event.end_ns - event.start_ns), process_of(rank_), thread,
        arguments_of(event));
  }

  void asynchronous(const TraceEvent& event, char phase, std::int64_t ns) {
    fmt::format_to(next(),
                   "{{\"name\":{},\"cat\":\"{}\",\"ph\":\"{}\",\"id2\":{{\"local\":\"{:#x}\"}},"
                   "\"ts\":{},\"pid\":{},\"tid\":{}{}}}",
                   name_of(event), event.category, phase, event.flight,
                   microseconds(ns + rank_.shift_ns), process_of(rank_), thread_of(rank_, 0),
                   phase == 'b' ? arguments_of(event) : "");
  }

  const TracedRank& rank_;
  int threads_ = 0;
  std::vector<std::pair<const char*, int>> devices_;  ///< and their rows
  std::string text_;
};

}  // namespace

std::string chrome_events(const TracedRank& rank, std::span<const TraceTrack> tracks) {
  Writer writer(rank);
  writer.describe();
  for (const TraceTrack& track : tracks) writer.add(track);
  return writer.take();
}

}  // namespace lockstep::train
