#include <lockstep/comm/flight/ring.hpp>

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <span>
#include <system_error>

#include <lockstep/base/error.hpp>
#include <lockstep/base/for_each_entry.hpp>
#include <lockstep/base/host.hpp>
#include <lockstep/base/process_state.hpp>
#include <lockstep/base/read_file.hpp>
#include <lockstep/comm/call_label.hpp>
#include <lockstep/comm/call_record.hpp>
#include <lockstep/comm/flight/format.hpp>
#include <lockstep/comm/flight/rank_list.hpp>

namespace lockstep {
namespace fs = std::filesystem;
namespace {

constexpr double ns = 1e-9;

double now_s() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

template <std::size_t N>
std::string text_of(const char (&field)[N]) {
  return {field, strnlen(field, N)};
}

std::string size_in_words(std::uint64_t bytes) {
  constexpr std::uint64_t kib = 1024, mib = kib * kib, gib = mib * kib;
  const auto in = [&](std::uint64_t unit) {
    return static_cast<double>(bytes) / static_cast<double>(unit);
  };
  if (bytes >= gib) return fmt::format("{:.1f} GiB", in(gib));
  if (bytes >= mib) return fmt::format("{:.1f} MiB", in(mib));
  if (bytes >= kib) return fmt::format("{:.1f} KiB", in(kib));
  return fmt::format("{} B", bytes);
}

CallRecord call_of(const flight::Record& record) {
  const auto dims = std::min<std::size_t>(record.dims, flight::max_dims);
  return {.kind = static_cast<Operation::Kind>(record.kind),
          .op = static_cast<ReduceOp>(record.op),
          .dtype = static_cast<DType>(record.dtype),
          .has_tensor = record.has_tensor != 0,
          .root = record.root,
          .tag = record.tag,
          .sequence = record.sequence,
          .shape = Shape(std::span<const std::int64_t>(record.extents, dims))};
}

std::string describe_with_label(const flight::Record& record) {
  std::string text = describe_fully(call_of(record));
  std::string note = text_of(record.label);
  if (record.label_number >= 0) note += fmt::format(" {}", record.label_number);
  if (record.has_tensor != 0) note += (note.empty() ? "" : ", ") + size_in_words(record.bytes);
  return note.empty() ? text : fmt::format("{} ({})", text, note);
}

/// False for a damaged record, which is ignored.
bool is_sound(const flight::Record& record, const flight::Header& header) {
  const bool current = record.ticket != 0 && record.ticket <= header.next &&
                       record.ticket + header.record_slots > header.next;
  const bool extents_fit = std::ranges::all_of(record.extents, [](auto n) { return n >= 0; });
  return current && extents_fit && record.group < header.group_slots &&
         record.kind <= static_cast<std::uint8_t>(Operation::Kind::receive);
}

FlightCall read_call(const flight::Record& record, const FlightGroupView& group,
                     const flight::Header& header) {
  const auto wall = [&](std::int64_t monotonic) {  // in doubles: a damaged number must not overflow
    return (static_cast<double>(monotonic) - static_cast<double>(header.monotonic_ns) +
            static_cast<double>(header.wall_ns)) *
           ns;
  };
  FlightCall call;
  call.what = describe_with_label(record);
  call.is_message = record.kind >= static_cast<std::uint8_t>(Operation::Kind::send);
  call.serves = call.is_message && text_of(record.label) == serving_label;
  const auto peer = static_cast<std::size_t>(record.root);
  if (call.is_message && record.root >= 0 && peer < group.members.size()) {
    call.peer = group.members[peer];
  }
  call.sequence = record.sequence;
  call.fingerprint = record.fingerprint;
  call.state = static_cast<FlightCall::State>(record.state);
  call.entered_s = wall(record.entered_ns);
  call.completed_s = record.completed_ns == 0 ? 0 : wall(record.completed_ns);
  return call;
}

/// The file's parts, checked.
struct Parts {
  flight::Header header;
  std::vector<flight::Group> groups;
  std::vector<flight::Record> records;
};

Parts parts_of(const fs::path& file) {
  const std::string bytes = read_file(file);
  Parts parts{};
  const auto name = file.string();
  if (bytes.size() < sizeof(flight::Header) ||
      std::memcmp(bytes.data(), flight::magic, sizeof(flight::magic)) != 0) {
    throw InputError(fmt::format("{} is not a flight recorder's ring file", name));
  }
  std::memcpy(&parts.header, bytes.data(), sizeof(flight::Header));
  const flight::Header& header = parts.header;
  if (header.version != flight::version) {
    throw InputError(
        fmt::format("{} is a flight recorder's ring of version {}; this program reads "
                    "version {}. Use the `lockstep` of the program that wrote it.",
                    name, header.version, flight::version));
  }
  if (header.header_bytes != sizeof(flight::Header) ||
      header.group_bytes != sizeof(flight::Group) ||
      header.record_bytes != sizeof(flight::Record) || header.group_slots != flight::group_slots ||
      header.record_slots != flight::record_slots || header.rank < 0 ||
      header.rank >= header.size) {
    throw InputError(
        fmt::format("{} is damaged: its header does not fit version {}", name, flight::version));
  }
  if (bytes.size() < flight::file_bytes) {
    throw InputError(fmt::format("{} is cut short: {} bytes of {}. Copy it again.", name,
                                 bytes.size(), flight::file_bytes));
  }
  parts.groups.resize(flight::group_slots);
  parts.records.resize(flight::record_slots);
  const char* at = bytes.data() + sizeof(flight::Header);
  std::memcpy(parts.groups.data(), at, parts.groups.size() * sizeof(flight::Group));
  at += parts.groups.size() * sizeof(flight::Group);
  std::memcpy(parts.records.data(), at, parts.records.size() * sizeof(flight::Record));
  std::ranges::sort(parts.records, {}, &flight::Record::ticket);
  return parts;
}

void look_at_process(FlightRing& ring, std::uint64_t pid_start) {
  if (ring.host != host_name()) return;
  if (process_start(ring.pid) != pid_start) {
    ring.observed = ProcessState::gone;
    return;
  }
  ring.observed = process_state(ring.pid);
  if (ring.observed != ProcessState::died) ring.observed_s = now_s();
}

}  // namespace

std::string ring_file_name(std::uint64_t job, int rank) {
  const char* slurm = std::getenv("SLURM_JOB_ID");
  return fmt::format("lockstep-flight-{}{:016x}-rank{}.ring",
                     slurm ? fmt::format("slurm{}-", slurm) : "", job, rank);
}

FlightRing read_flight_ring(const fs::path& file) {
  const Parts parts = parts_of(file);
  const flight::Header& header = parts.header;
  FlightRing ring{.file = file,
                  .job = header.job,
                  .rank = header.rank,
                  .size = header.size,
                  .pid = header.pid,
                  .host = text_of(header.host),
                  .start_s = static_cast<double>(header.wall_ns) * ns,
                  .observed = static_cast<ProcessState>(header.observed),
                  .observed_s = static_cast<double>(header.observed_ns) * ns,
                  .last_words = text_of(header.last_words),
                  .failure_kind = static_cast<FailureKind>(header.failure_kind),
                  .groups = {}};
  if (ring.observed == ProcessState::unknown) look_at_process(ring, header.pid_start);

  std::vector<int> view_of_slot(flight::group_slots, -1);
  for (std::size_t slot = 0; slot < parts.groups.size(); ++slot) {
    const flight::Group& group = parts.groups[slot];
    if (group.state == 0) continue;
    view_of_slot[slot] = static_cast<int>(ring.groups.size());
    const std::string members = text_of(group.members);
    ring.groups.push_back(
        {.number = group.number,
         .name = text_of(group.name),
         .members_text = members,
         .members = members.empty() ? std::vector<int>{} : parse_rank_list(members),
         .entered = group.entered,
         .calls = {}});
  }
  for (const flight::Record& record : parts.records) {
    if (!is_sound(record, header) || view_of_slot[record.group] < 0) continue;
    FlightGroupView& group = ring.groups[static_cast<std::size_t>(view_of_slot[record.group])];
    group.calls.push_back(read_call(record, group, header));
  }
  return ring;
}

std::vector<FlightRing> read_flight_rings(const fs::path& folder, std::uint64_t job) {
  std::vector<FlightRing> rings;
  const auto read = [&](const fs::directory_entry& entry) {
    const std::string name = entry.path().filename().string();
    if (entry.path().extension() != ".ring") return;
    // Others may use the folder too: open only files that may belong to this job.
    const bool is_the_jobs = name.starts_with("lockstep-flight-") &&
                             name.find(fmt::format("{:016x}", job)) != std::string::npos;
    if (job != 0 && !is_the_jobs && !name.starts_with("rank-")) return;
    try {
      FlightRing ring = read_flight_ring(entry.path());
      if (job == 0 || ring.job == job) rings.push_back(std::move(ring));
    } catch (const InputError&) {
      // Ignore the file of a process that has just ended and removed it.
      if ((job == 0 || is_the_jobs) && fs::exists(entry.path())) throw;
    }
  };
  std::error_code ignored;
  for_each_entry(folder, read, ignored);
  std::ranges::sort(rings, {}, &FlightRing::rank);
  return rings;
}

void copy_flight_ring(const FlightRing& ring, const fs::path& to) {
  std::string bytes = read_file(ring.file);
  flight::Header header;
  if (bytes.size() < sizeof(header)) throw Error(ring.file.string() + " has gone");
  std::memcpy(&header, bytes.data(), sizeof(header));
  header.observed_ns = static_cast<std::int64_t>(ring.observed_s / ns);
  header.observed = static_cast<std::uint8_t>(ring.observed);
  std::memcpy(bytes.data(), &header, sizeof(header));

  // No AtomicFile of layer io: a failed rank that waits for a busy disk's fsync would hold up the
  // verdict, and after a crash of the machine nobody asks for the ring.
  const fs::path temporary = fmt::format("{}.{}.tmp", to.string(), getpid());
  std::ofstream out(temporary, std::ios::binary);
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  out.close();
  std::error_code error;
  if (out) fs::rename(temporary, to, error);
  if (out && !error) return;
  std::error_code ignored;
  fs::remove(temporary, ignored);
  throw Error(fmt::format("cannot write {}: {}", to.string(),
                          error ? error.message() : "is the disk full?"));
}

}  // namespace lockstep
