#include <lockstep/train/report/event_file.hpp>

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <chrono>
#include <utility>

#include <lockstep/base/for_each_entry.hpp>
#include <lockstep/base/host.hpp>
#include <lockstep/base/log.hpp>
#include <lockstep/io/folder.hpp>

namespace lockstep::train {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view name_begins = "events.out.tfevents.";

// Wire format of protocol buffers: protobuf.dev/programming-guides/encoding. The machine is
// little-endian, as the format is.
static_assert(std::endian::native == std::endian::little);

template <class Number>
void put(std::string& to, Number number) {
  const auto bytes = std::bit_cast<std::array<char, sizeof(Number)>>(number);
  to.append(bytes.data(), bytes.size());
}

void put_varint(std::string& to, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7U) to += static_cast<char>(value | 0x80U);
  to += static_cast<char>(value);
}

enum class Wire : std::uint8_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

void put_key(std::string& to, unsigned field, Wire wire) {
  put_varint(to, field << 3U | static_cast<unsigned>(wire));
}

void put_number(std::string& to, unsigned field, std::int64_t value) {
  put_key(to, field, Wire::varint);
  put_varint(to, static_cast<std::uint64_t>(value));
}

void put_double(std::string& to, unsigned field, double value) {
  put_key(to, field, Wire::fixed64);
  put(to, value);
}

void put_bytes(std::string& to, unsigned field, std::string_view bytes) {
  put_key(to, field, Wire::bytes);
  put_varint(to, bytes.size());
  to += bytes;
}

void put_doubles(std::string& to, unsigned field, const std::vector<double>& values) {
  std::string packed;
  for (const double value : values) put(packed, value);
  put_bytes(to, field, packed);
}

/// CRC-32C (Castagnoli): RFC 3720, section B.4, with the polynomial's bits reversed.
constexpr std::array<std::uint32_t, 256> crc_table = [] {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < table.size(); ++i) {
    std::uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = (crc & 1U) != 0 ? crc >> 1U ^ 0x82F63B78U : crc >> 1U;
    table[i] = crc;
  }
  return table;
}();

/// As TFRecords store it.
std::uint32_t masked_crc(std::string_view bytes) {
  std::uint32_t crc = ~0U;
  for (const char byte : bytes)
    crc = crc_table[(crc ^ static_cast<unsigned char>(byte)) & 0xFFU] ^ crc >> 8U;
  return std::rotr(~crc, 15) + 0xA282EAD8U;
}

std::string record_of(std::string_view event) {
  std::string record;
  put(record, static_cast<std::uint64_t>(event.size()));
  put(record, masked_crc(record));
  record += event;
  put(record, masked_crc(event));
  return record;
}

/// Event, with wall_time = 1, step = 2, and one other field, encoded.
std::string event_of(std::int64_t step, std::string_view what) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  std::string event;
  put_double(event, 1, std::chrono::duration<double>(now).count());
  put_number(event, 2, step);
  event += what;
  return record_of(event);
}

/// SummaryMetadata of a plugin's values.
std::string metadata_of(std::string_view plugin) {
  std::string data, metadata;
  put_bytes(data, 1, plugin);    // PluginData.plugin_name
  put_bytes(metadata, 1, data);  // plugin_data
  return metadata;
}

std::vector<std::string> files_in(const fs::path& folder) {
  std::vector<std::string> names;
  const auto take = [&](const fs::directory_entry& entry) {
    std::string name = entry.path().filename().string();
    if (name.starts_with(name_begins)) names.push_back(std::move(name));
  };
  std::error_code unreadable;
  for_each_entry(folder, take, unreadable);
  return names;
}

/// Readers take files in the order of their names: the time in this one is later than all others,
/// also where a clock was set back.
std::string next_name(const fs::path& folder) {
  std::int64_t seconds = std::chrono::duration_cast<std::chrono::seconds>(
                             std::chrono::system_clock::now().time_since_epoch())
                             .count();
  for (const std::string& name : files_in(folder)) {
    std::int64_t theirs = 0;
    std::from_chars(name.data() + name_begins.size(), name.data() + name.size(), theirs);
    seconds = std::max(seconds, theirs + 1);
  }
  return fmt::format("{}{:010}.{}.{}.0", name_begins, seconds, host_name(), ::getpid());
}

}  // namespace

void EventSummary::add_value(std::string_view tag, std::string_view rest) {
  std::string value;
  put_bytes(value, 1, tag);  // Summary.Value.tag
  value += rest;
  put_bytes(encoded_, 1, value);  // Summary.value
}

void EventSummary::add_scalar(std::string_view tag, double value) {
  std::string rest;
  put_key(rest, 2, Wire::fixed32);  // simple_value
  put(rest, static_cast<float>(value));
  add_value(tag, rest);
}

void EventSummary::add_text(std::string_view tag, std::string_view text) {
  constexpr std::int64_t dt_string = 7;
  std::string rest, tensor, shape, dim;
  put_number(dim, 1, 1);     // TensorShapeProto.Dim.size
  put_bytes(shape, 2, dim);  // TensorShapeProto.dim
  put_number(tensor, 1, dt_string);
  put_bytes(tensor, 2, shape);  // TensorProto.tensor_shape
  put_bytes(tensor, 8, text);   // string_val
  put_bytes(rest, 8, tensor);   // Summary.Value.tensor
  put_bytes(rest, 9, metadata_of("text"));
  add_value(tag, rest);
}

void EventSummary::add_histogram(std::string_view tag, const Histogram& values) {
  std::string rest, histogram;
  put_double(histogram, 1, values.min);
  put_double(histogram, 2, values.max);
  put_double(histogram, 3, static_cast<double>(values.count));
  put_double(histogram, 4, values.sum);
  put_double(histogram, 5, values.sum_squares);
  put_doubles(histogram, 6, values.limits);
  put_doubles(histogram, 7, values.counts);
  put_bytes(rest, 5, histogram);  // Summary.Value.histo
  add_value(tag, rest);
}

EventFile::EventFile(fs::path folder, std::int64_t purge_step)
    : folder_(std::move(folder)), purge_step_(purge_step) {
  try {
    open();
  } catch (const std::exception& error) {
    warn(error.what());
  }
}

bool EventFile::are_in(const fs::path& folder) { return !files_in(folder).empty(); }

void EventFile::open() {
  make_folder(folder_);
  file_ = AppendedFile(File::create_new(folder_ / next_name(folder_)), 0);
  constexpr std::int64_t start = 1;
  std::string version, session, session_log;
  put_bytes(version, 3, "brain.Event:2");  // file_version
  put_number(session, 1, start);           // SessionLog.status
  put_bytes(session_log, 7, session);      // Event.session_log
  file_.add(event_of(purge_step_, version));
  file_.add(event_of(purge_step_, session_log));
}

void EventFile::add(std::int64_t step, const EventSummary& summary) {
  std::string what;
  put_bytes(what, 5, summary.encoded());
  add_event(step, what);
}

void EventFile::add_event(std::int64_t step, std::string_view what) {
  if (waiting_.size() > most_unwritten) {
    waiting_.clear();
    warn(fmt::format("{} MiB wait for room, and were dropped", most_unwritten >> 20U));
  }
  newest_step_ = std::max(newest_step_, step);
  waiting_ += event_of(step, what);
}

void EventFile::warn(const std::string& why) {
  if (std::exchange(is_warned_of_, true)) return;
  log(LogLevel::warning,
      fmt::format("TensorBoard's files in {} are not complete: {}. The run goes on.",
                  folder_.string(), why));
}

void EventFile::flush() {
  try {
    std::error_code unknown;
    if (file_.path().empty() || !fs::exists(file_.path(), unknown)) {  // somebody removed it
      purge_step_ = std::max(purge_step_, newest_step_);
      open();
    }
    if (file_.unwritten() > 0) file_.flush();
    file_.add(waiting_);
    const std::string added = std::exchange(waiting_, {});
    try {
      file_.flush();
    } catch (const FileError&) {
      file_.drop();
      waiting_ = added;
      throw;
    }
    is_warned_of_ = false;
  } catch (const std::exception& error) {
    warn(error.what());
  }
}

}  // namespace lockstep::train
