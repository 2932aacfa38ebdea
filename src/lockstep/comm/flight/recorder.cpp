#include <lockstep/comm/flight/recorder.hpp>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <system_error>
#include <vector>

#include <lockstep/base/clock.hpp>
#include <lockstep/base/for_each_entry.hpp>
#include <lockstep/base/host.hpp>
#include <lockstep/base/log.hpp>
#include <lockstep/base/process_state.hpp>
#include <lockstep/comm/call_label.hpp>
#include <lockstep/comm/call_record.hpp>
#include <lockstep/comm/flight/rank_list.hpp>
#include <lockstep/comm/flight/ring.hpp>

namespace lockstep {
namespace fs = std::filesystem;
namespace {

std::mutex process_mutex;
std::weak_ptr<FlightRecorder> process_recorder;
std::atomic<std::uint64_t> next_group = 0;

template <class T>
std::int64_t nanoseconds(T time) noexcept {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
}

std::atomic_ref<std::uint64_t> atomic(std::uint64_t& value) noexcept {
  return std::atomic_ref<std::uint64_t>(value);
}
static_assert(std::atomic_ref<std::uint64_t>::is_always_lock_free);  // so it works across processes

template <std::size_t N>
void copy_text(char (&target)[N], const char* text) noexcept {
  const std::size_t length = std::min(std::strlen(text), N - 1);
  std::memcpy(target, text, length);
  std::memset(target + length, 0, N - length);
}

/// On a network file system every event would be a network write to mapped memory.
bool on_network(const fs::path& dir) {
  constexpr std::array<unsigned long, 8> networks = {
      0x6969,      // NFS
      0x0BD00BD0,  // Lustre
      0x47504653,  // GPFS
      0x19830326,  // BeeGFS
      0xFF534D42,  // CIFS
      0xFE534D42,  // SMB 2
      0x00C36400,  // Ceph
      0x65735546,  // FUSE
  };
  struct statfs info {};
  if (statfs(dir.c_str(), &info) != 0) return false;
  const auto type = static_cast<unsigned long>(info.f_type) & 0xFFFFFFFFUL;
  return std::ranges::find(networks, type) != networks.end();
}

/// Time of day of the process's last sign of activity.
double last_sign_s(const FlightRing& ring) {
  double last = ring.start_s;
  for (const FlightGroupView& group : ring.groups) {
    if (!group.calls.empty()) last = std::max(last, group.calls.back().entered_s);
  }
  return last;
}

/// A ring of a dead process is evidence, kept for a limited time: an hour if the process is known
/// to be dead, else (other nodes and versions) a day.
void remove_old_rings(const fs::path& folder) noexcept {
  constexpr auto old = std::chrono::hours(1), very_old = std::chrono::hours(24);
  const auto look = [&](const fs::directory_entry& entry) {
    if (!entry.path().filename().string().starts_with("lockstep-flight-")) return;
    std::error_code gone;
    // Age since creation: writes to mapped memory do not change the file's time.
    const auto age = fs::file_time_type::clock::now() - fs::last_write_time(entry.path(), gone);
    if (gone || age < old) return;
    bool is_over = age > very_old;
    try {
      const FlightRing ring = read_flight_ring(entry.path());
      const Seconds silence(static_cast<double>(nanoseconds(std::chrono::system_clock::now())) *
                                1e-9 -
                            last_sign_s(ring));
      if (ring.observed == ProcessState::gone) {
        is_over = silence > old;
      } else {
        is_over = ring.observed == ProcessState::unknown && silence > very_old;
      }
    } catch (const std::exception&) {  // of another version, or damaged
    }
    if (is_over) fs::remove(entry.path(), gone);
  };
  std::error_code ignored;
  for_each_entry(folder, look, ignored);
}

/// The mapped file, or the reason why there is none.
struct Mapping {
  Descriptor file;
  std::byte* memory = nullptr;
  std::string why;
};
Mapping map_new_file(const fs::path& path) {
  const auto error = [] { return std::generic_category().message(errno); };
  Mapping mapping;
  mapping.file =
      Descriptor(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!mapping.file) {
    mapping.why = error();
    return mapping;
  }
  const int file = mapping.file.get();
  // so that a full disk is an error here and no SIGBUS later
  errno = allocate_file(mapping.file, 0, flight::file_bytes);
  if (errno == 0) {
    void* memory = mmap(nullptr, flight::file_bytes, PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_POPULATE, file, 0);
    if (memory != MAP_FAILED) mapping.memory = static_cast<std::byte*>(memory);
  }
  if (!mapping.memory) {
    mapping.why = error();
    unlink(path.c_str());
  }
  return mapping;
}

std::vector<fs::path> candidates(const std::string& dir) {
  if (!dir.empty()) return {dir};
  std::vector<fs::path> folders;
  if (const char* temporary = std::getenv("TMPDIR"); temporary && *temporary) {
    folders.emplace_back(temporary);
  }
  folders.emplace_back("/dev/shm");
  return folders;
}

}  // namespace

std::shared_ptr<FlightRecorder> FlightRecorder::open(const FlightIdentity& identity,
                                                     const std::string& dir) {
  const std::lock_guard lock(process_mutex);
  if (auto recorder = process_recorder.lock()) return recorder;
  auto recorder = make(identity, dir);
  process_recorder = recorder;
  return recorder;
}

std::shared_ptr<FlightRecorder> FlightRecorder::current() noexcept {
  const std::lock_guard lock(process_mutex);
  return process_recorder.lock();
}

std::shared_ptr<FlightRecorder> FlightRecorder::make(const FlightIdentity& identity,
                                                     const std::string& dir) {
  std::string why;
  for (const fs::path& folder : candidates(dir)) {
    const fs::path path = folder / ring_file_name(identity.job, identity.rank);
    const bool network = on_network(folder);
    Mapping mapping =
        network ? Mapping{.why = "it is on a network file system"} : map_new_file(path);
    if (mapping.memory) {
      std::shared_ptr<FlightRecorder> recorder(
          new FlightRecorder(path, std::move(mapping.file), mapping.memory));
      recorder->introduce(identity);
      remove_old_rings(folder);
      return recorder;
    }
    why += fmt::format("{}{}: {}", why.empty() ? "" : "; ", folder.string(), mapping.why);
  }
  static bool warned = false;
  if (!std::exchange(warned, true)) {
    log(LogLevel::warning,
        fmt::format("no flight recorder on this rank, so the diagnosis of a hang will lack it "
                    "({}). Set flight.dir in the deck to a local folder",
                    why));
  }
  return nullptr;
}

FlightRecorder::FlightRecorder(fs::path path, Descriptor file, std::byte* memory) noexcept
    : path_(std::move(path)),
      file_(std::move(file)),
      memory_(memory),
      header_(reinterpret_cast<flight::Header*>(memory)),
      groups_(reinterpret_cast<flight::Group*>(memory + sizeof(flight::Header))),
      records_(reinterpret_cast<flight::Record*>(groups_ + flight::group_slots)) {}

FlightRecorder::~FlightRecorder() {
  unlink(path_.c_str());
  munmap(memory_, flight::file_bytes);
}

void FlightRecorder::introduce(const FlightIdentity& identity) {
  flight::Header& header = *header_;
  header.version = flight::version;
  header.header_bytes = sizeof(flight::Header);
  header.group_bytes = sizeof(flight::Group);
  header.record_bytes = sizeof(flight::Record);
  header.group_slots = flight::group_slots;
  header.record_slots = flight::record_slots;
  header.rank = identity.rank;
  header.size = identity.size;
  header.pid = static_cast<std::int32_t>(getpid());
  header.pid_start = process_start(header.pid);
  header.job = identity.job;
  header.monotonic_ns = nanoseconds(Clock::now());
  header.wall_ns = nanoseconds(std::chrono::system_clock::now());
  copy_text(header.host, host_name().c_str());
  std::memcpy(header.magic, flight::magic, sizeof(flight::magic));
}

std::uint64_t FlightRecorder::next_group_number() noexcept { return next_group; }

int FlightRecorder::add_group(std::uint64_t number, std::span<const int> members) noexcept {
  const std::lock_guard lock(table_);
  next_group = std::max(next_group.load(), number + 1);
  std::span groups(groups_, flight::group_slots);
  auto place = std::ranges::find(groups, 0U, &flight::Group::state);
  // Closed groups stay while there is room: a late rank may still look for one.
  if (place == groups.end()) {
    for (auto g = groups.begin(); g != groups.end(); ++g) {
      if (g->state == 2 && (place == groups.end() || g->number < place->number)) place = g;
    }
  }
  if (place == groups.end()) return -1;
  flight::Group& group = *place;
  group = {};
  group.number = number;
  group.size = static_cast<std::int32_t>(members.size());
  const std::string text = format_rank_list(members);
  copy_text(group.members, text.size() < sizeof(group.members) ? text.c_str() : "");
  group.state = 1;
  return static_cast<int>(&group - groups_);
}

void FlightRecorder::name_group(int group, const char* name) noexcept {
  const std::lock_guard lock(table_);
  if (group >= 0) copy_text(groups_[group].name, name);
}

void FlightRecorder::close_group(int group) noexcept {
  const std::lock_guard lock(table_);
  if (group >= 0) groups_[group].state = 2;
}

std::uint64_t FlightRecorder::entered(int group, const Operation& operation) noexcept {
  if (group < 0) return 0;
  const std::uint64_t ticket = atomic(header_->next).fetch_add(1, std::memory_order_relaxed) + 1;
  flight::Record& record = records_[ticket % flight::record_slots];
  atomic(record.ticket).store(0, std::memory_order_release);

  const Tensor& t = operation.input.defined() ? operation.input : operation.output;
  record.sequence = operation.sequence;
  record.fingerprint = operation.fingerprint;
  record.bytes = t.defined() ? t.bytes() : 0;
  record.group = static_cast<std::uint32_t>(group);
  record.root = operation.root;
  record.tag = operation.tag;
  record.kind = static_cast<std::uint8_t>(operation.kind);
  record.op = static_cast<std::uint8_t>(operation.op);
  record.dtype = static_cast<std::uint8_t>(t.dtype());
  record.dims = static_cast<std::uint8_t>(t.shape().dims());
  std::copy(t.shape().begin(), t.shape().end(), record.extents);
  record.has_tensor = t.defined() ? 1 : 0;
  record.state = flight::State::entered;
  const CallLabel* label = CallLabel::current();
  record.label_number = label ? label->number() : -1;
  copy_text(record.label, label ? label->what() : "");
  record.completed_ns = 0;
  record.entered_ns = nanoseconds(Clock::now());

  atomic(record.ticket).store(ticket, std::memory_order_release);
  if (!operation.is_message()) {
    atomic(groups_[group].entered).store(operation.sequence, std::memory_order_relaxed);
  }
  return ticket;
}

flight::Record* FlightRecorder::find(std::uint64_t ticket) noexcept {
  flight::Record& record = records_[ticket % flight::record_slots];
  const bool still_there = ticket != 0 && atomic(record.ticket).load() == ticket;
  return still_there ? &record : nullptr;
}

void FlightRecorder::agreed(std::uint64_t ticket) noexcept {
  if (flight::Record* record = find(ticket)) record->state = flight::State::agreed;
}

void FlightRecorder::completed(std::uint64_t ticket) noexcept {
  flight::Record* record = find(ticket);
  if (!record) return;
  record->completed_ns = nanoseconds(Clock::now());
  record->state = flight::State::completed;
  if (static_cast<Operation::Kind>(record->kind) < Operation::Kind::send) {
    atomic(groups_[record->group].completed).store(record->sequence, std::memory_order_relaxed);
  }
}

void FlightRecorder::say_last_words(const Failure& failure) noexcept {
  header_->failure_kind = static_cast<std::uint8_t>(failure.kind);
  copy_text(header_->last_words, failure.message.c_str());
}

}  // namespace lockstep
