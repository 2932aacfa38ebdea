#include "memory_watch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include <lockstep/io/folder.hpp>

namespace lockstep::elastic {
namespace fs = std::filesystem;
namespace {

constexpr std::int64_t kib = 1024;
// Version 1 of control groups writes "no limit" as a number near 2^63.
constexpr std::int64_t no_limit = std::int64_t{1} << 60;

/// The number after a word at the beginning of a line, as in "oom_kill 3" or "VmRSS:  12 kB".
std::optional<std::int64_t> value_of(const fs::path& file, const std::string& word) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string first;
    std::int64_t value = 0;
    if (words >> first && first == word && words >> value) return value;
  }
  return std::nullopt;
}

std::optional<std::int64_t> number_in(const fs::path& file) {
  std::ifstream in(file);
  std::int64_t value = 0;
  if (in >> value) return value;
  return std::nullopt;  // also for "max"
}

/// The limit set by ulimit -v, in bytes; 0: none.
std::int64_t address_space_limit(const fs::path& limits) {
  const std::string name = "Max address space";
  std::ifstream in(limits);
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with(name)) continue;
    std::istringstream rest(line.substr(name.size()));
    std::int64_t bytes = 0;
    return rest >> bytes ? bytes : 0;
  }
  return 0;
}

}  // namespace

MemoryLimit MemoryWatch::machine() const {
  return {.name = "the machine's memory",
          .bytes = value_of(system_ / "proc/meminfo", "MemTotal:").value_or(0) * kib,
          .kills =
              static_cast<std::uint64_t>(value_of(system_ / "proc/vmstat", "oom_kill").value_or(0)),
          .folder = {}};
}

std::optional<MemoryLimit> MemoryWatch::group_limit(const fs::path& folder,
                                                    const std::string& name) const {
  const bool second = fs::exists(folder / "memory.events");
  const auto bytes = number_in(folder / (second ? "memory.max" : "memory.limit_in_bytes"));
  const auto kills =
      value_of(folder / (second ? "memory.events" : "memory.oom_control"), "oom_kill");
  if (!bytes || *bytes >= no_limit || !kills) return std::nullopt;
  return MemoryLimit{.name = fmt::format("{} of control group {}",
                                         second ? "memory.max" : "memory.limit_in_bytes", name),
                     .bytes = *bytes,
                     .kills = static_cast<std::uint64_t>(*kills),
                     .folder = folder};
}

std::vector<MemoryLimit> MemoryWatch::limits_of(int pid) const {
  std::vector<MemoryLimit> limits;
  std::ifstream groups(system_ / fmt::format("proc/{}/cgroup", pid));
  // "0::/a/b" in version 2, "4:memory:/a/b" in version 1.
  for (std::string line; std::getline(groups, line);) {
    const auto first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool of_memory = (',' + controllers + ',').find(",memory,") != std::string::npos;
    if (!controllers.empty() && !of_memory) continue;
    const fs::path root = system_ / (of_memory ? "sys/fs/cgroup/memory" : "sys/fs/cgroup");
    for (fs::path group = line.substr(second + 1); group.has_relative_path();
         group = group.parent_path()) {
      if (auto limit = group_limit(root / group.relative_path(), group.string()))
        limits.push_back(*std::move(limit));
    }
  }
  return limits;
}

MemoryWatch::Sample MemoryWatch::sample(int pid) const {
  const fs::path process = system_ / fmt::format("proc/{}", pid);
  return {.held = value_of(process / "status", "VmRSS:").value_or(0) * kib,
          .most = value_of(process / "status", "VmHWM:").value_or(0) * kib,
          .own_limit = address_space_limit(process / "limits")};
}

void MemoryWatch::look(const std::vector<RankProcess>& ranks) {
  for (const RankProcess& process : ranks) {
    const Sample now = sample(process.pid);
    if (now.held > 0) samples_[process.rank] = now;
  }
  if (limits_.empty() && !ranks.empty()) {
    limits_ = limits_of(ranks.front().pid);
    limits_.push_back(machine());
  }
}

std::string MemoryWatch::in_words(int rank) const {
  const auto at = samples_.find(rank);
  if (at == samples_.end()) return "an amount that is unknown here";
  const Sample& sample = at->second;
  std::string text = format_bytes(sample.held);
  if (sample.most > sample.held) text += fmt::format(" ({} at most)", format_bytes(sample.most));
  if (sample.own_limit > 0)
    text += fmt::format("; its limit (ulimit -v) was {}", format_bytes(sample.own_limit));
  return text;
}

std::optional<MemoryWatch::Finding> MemoryWatch::finding(int rank) const {
  for (const MemoryLimit& limit : limits_) {
    const auto now = limit.folder.empty() ? machine() : group_limit(limit.folder, "");
    if (!now || now->kills <= limit.kills) continue;
    if (rank < 0 && !samples_.empty()) {
      rank = std::ranges::max_element(samples_, {}, [](const auto& s) {
               return s.second.most;
             })->first;
    }
    return Finding{
        rank, fmt::format(
                  "the system killed rank {} for lack of memory: it held {}; the limit, {}, is {}",
                  rank, in_words(rank), limit.name, format_bytes(limit.bytes))};
  }
  return std::nullopt;
}

}  // namespace lockstep::elastic
