#include "run_view.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include <lockstep/base/error.hpp>
#include <lockstep/base/for_each_entry.hpp>
#include <lockstep/base/host.hpp>
#include <lockstep/base/process_state.hpp>
#include <lockstep/base/read_file.hpp>
#include <lockstep/checkpoint/folder_of_checkpoints.hpp>
#include <lockstep/comm/flight/format.hpp>
#include <lockstep/io/folder_lock.hpp>
#include <lockstep/train/report/flight_report.hpp>
#include <lockstep/train/run/elastic_report.hpp>
#include <lockstep/train/run/run_local_copies.hpp>

#include "../rings.hpp"

namespace lockstep::elastic {
namespace fs = std::filesystem;
namespace {

/// The last whole lines of a file, at most this many bytes.
std::string tail(const fs::path& file, std::streamoff most) {
  std::error_code error;
  if (!fs::is_regular_file(file, error)) return {};  // opening a pipe would block
  std::ifstream in(file, std::ios::binary | std::ios::ate);
  const std::streamoff size = in ? static_cast<std::streamoff>(in.tellg()) : 0;
  const std::streamoff from = std::max<std::streamoff>(0, size - most);
  in.seekg(from);
  std::string text(static_cast<std::size_t>(size - from), '\0');
  in.read(text.data(), size - from);
  return text.substr(0, text.rfind('\n') + 1);
}

/// The owner of the lock; empty: none. File times do not matter: the owner's heartbeat changes
/// them.
std::string lock_of(const fs::path& dir) {
  constexpr std::int64_t most_bytes = 1 << 16U;  // names and numbers
  return read_small_file_or_nothing(dir / FolderLock::file_name, most_bytes);
}

std::int64_t step_of_metrics(const fs::path& file) {
  constexpr std::streamoff some_lines = 8192;
  std::string text = tail(file, some_lines);
  if (text.empty()) return 0;
  text.pop_back();
  const auto line = text.substr(text.rfind('\n') + 1);
  const auto row = nlohmann::json::parse(line, nullptr, false);
  return row.is_object() ? row.value("step", std::int64_t{0}) : 0;
}

/// A small file's; nothing where it is none.
nlohmann::json json_of(const fs::path& file) {
  constexpr std::int64_t most_bytes = 1 << 24U;  // some figures of each rank
  auto facts = nlohmann::json::parse(read_small_file_or_nothing(file, most_bytes), nullptr, false);
  return facts.is_object() ? facts : nlohmann::json::object();
}

/// How far a ring has come, without reading all of it: 0 if it cannot be read.
std::uint64_t position(const fs::path& file) {
  std::error_code error;
  if (!fs::is_regular_file(file, error)) return 0;
  std::ifstream in(file, std::ios::binary);
  in.seekg(offsetof(flight::Header, next));
  std::uint64_t next = 0;
  in.read(reinterpret_cast<char*>(&next), sizeof(next));
  return in ? next : 0;
}

}  // namespace

RunView::RunView(fs::path dir, bool own_loop)
    : dir_(std::move(dir)),
      own_loop_(own_loop),
      start_file_(own_loop ? train::ElasticReport::file_name : "deck.toml"),
      summary_file_(own_loop ? train::ElasticReport::file_name : "summary.json") {}

RunView::Stamp RunView::stamp(const fs::path& file) {
  struct stat status {};
  if (stat(file.c_str(), &status) != 0) return {};
  return {
      .inode = status.st_ino,
      .size = static_cast<std::uint64_t>(status.st_size),
      .changed_ns = status.st_mtim.tv_sec * std::int64_t{1'000'000'000} + status.st_mtim.tv_nsec};
}

std::map<std::string, RunView::Stamp> RunView::stamps() const {
  std::map<std::string, Stamp> now;
  for (const char* name : {"metrics.jsonl", "log.txt", summary_file_, start_file_, "flight/where"})
    now[name] = stamp(dir_ / name);
  const auto take = [&](const fs::directory_entry& entry) {
    now[entry.path().filename().string()] = stamp(entry.path());
  };
  std::error_code ignored;
  for_each_entry(checkpoints(), take, ignored);
  return now;
}

void RunView::begin() {
  if (job_ != 0) earlier_job_ = job_;
  if (const auto where = train::read_where(dir_ / "flight")) earlier_job_ = where->job;
  job_ = 0;
  ranks_.clear();
  knows_all_ranks_ = false;
  calls_.clear();
  earlier_summary_ = stamp(dir_ / summary_file_);
  earlier_start_ = stamp(dir_ / start_file_);
  earlier_lock_ = lock_of(dir_);
  earlier_step_ = step();
  seen_ = earlier_ = stamps();
}

void RunView::release() const {
  std::error_code ignored;
  if (lock_of(dir_) != earlier_lock_) fs::remove(dir_ / FolderLock::file_name, ignored);
}

void RunView::find_ranks() {
  if (job_ == 0) {
    const auto where = train::read_where(dir_ / "flight");
    if (!where || where->job == earlier_job_) return;
    job_ = where->job;
    rings_ = where->folder;
  }
  if (knows_all_ranks_) return;
  const bool up = is_up();  // taken before the scan: a rank makes its ring earlier
  try {
    const std::string here = host_name();
    std::vector<RankProcess> found;
    for (const FlightRing& ring : read_flight_rings(rings_, job_)) {
      if (ring.host == here) found.push_back({ring.rank, ring.pid, ring.file});
    }
    ranks_ = std::move(found);
    knows_all_ranks_ = up;
  } catch (const Error&) {  // the ring is being made, or its folder is on another machine
  }
}

bool RunView::ranks_moved() {
  bool moved = false;
  for (const RankProcess& process : ranks_) {
    const std::uint64_t now = position(process.ring);
    if (now != 0 && std::exchange(calls_[process.rank], now) != now) moved = true;
  }
  return moved;
}

bool RunView::shows_life() {
  find_ranks();
  bool life = ranks_moved();
  auto now = stamps();
  if (now != seen_) life = true;
  seen_ = std::move(now);
  return life;
}

bool RunView::is_up() const {
  const Stamp now = stamp(dir_ / start_file_);
  return now.inode != 0 && now != earlier_start_;
}

bool RunView::has_spoken() const { return own_loop_ && stamp(dir_ / start_file_).inode != 0; }

fs::path RunView::checkpoints() const {
  if (!own_loop_) return dir_ / "checkpoints";
  return json_of(dir_ / start_file_).value("checkpoints", std::string());
}

// Not "greater": a start from an older checkpoint goes back.
bool RunView::has_stepped() const {
  if (!is_up()) return false;
  if (own_loop_) return json_of(dir_ / start_file_).value("steps_made", std::int64_t{0}) > 0;
  return step() != earlier_step_;
}

bool RunView::has_saved() const {
  const fs::path folder = checkpoints();
  const auto is_new = [&](const fs::path& file) {
    const auto then = earlier_.find(file.filename().string());
    return then == earlier_.end() || stamp(file) != then->second;
  };
  return std::ranges::any_of(list_checkpoints(folder), is_new) ||
         (is_new(train::note_of_local_copies(folder)) && train::has_local_copies_here(folder));
}

bool RunView::summary_says(const char* key) const {
  if (stamp(dir_ / summary_file_) == earlier_summary_) return false;
  return json_of(dir_ / summary_file_).value(key, false);
}

std::int64_t RunView::step() const {
  const std::int64_t told = own_loop_ ? json_of(dir_ / start_file_).value("step", std::int64_t{0})
                                      : step_of_metrics(dir_ / "metrics.jsonl");
  return std::max(told, checkpoint_step());
}

fs::path RunView::checkpoint() const {
  try {
    const auto there = list_checkpoints(checkpoints());
    return there.empty() ? fs::path() : there.front();
  } catch (const std::exception&) {
    return {};
  }
}

std::int64_t RunView::checkpoint_step() const { return step_of(checkpoint()).value_or(0); }

std::vector<FlightRing> RunView::take_rings() const {
  const fs::path folder = dir_ / "flight";
  std::vector<FlightRing> rings;
  if (job_ == 0) return rings;
  try {
    rings = read_flight_rings(folder, job_);
    utility::add_left_behind(folder, rings);
    for (const FlightRing& ring : rings) {
      const bool left_behind = ring.file.parent_path() != folder;
      if (!left_behind || process_state(ring.pid) != ProcessState::gone) continue;
      copy_flight_ring(ring, folder / ("rank-" + std::to_string(ring.rank) + ".ring"));
      std::error_code ignored;
      fs::remove(ring.file, ignored);
    }
  } catch (const std::exception&) {  // no room, or a damaged ring: nothing depends on rings
  }
  std::ranges::sort(rings, {}, &FlightRing::rank);
  return rings;
}

}  // namespace lockstep::elastic
