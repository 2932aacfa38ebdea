#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include <lockstep/base/printable.hpp>
#include <lockstep/comm/flight/ring.hpp>
#include <lockstep/comm/flight/verdict.hpp>
#include <lockstep/data/files/json_file.hpp>
#include <lockstep/train/report/standard_output.hpp>

#include "commands.hpp"
#include "rings.hpp"

namespace lockstep::utility {
namespace fs = std::filesystem;
namespace {

using Rings = std::vector<FlightRing>;

/// Rings of the newest job, if the folder holds several.
Rings newest_job(Rings rings) {
  std::map<std::uint64_t, double> starts;
  for (const FlightRing& ring : rings) starts[ring.job] = std::max(starts[ring.job], ring.start_s);
  if (starts.size() < 2) return rings;
  const auto newest = std::ranges::max_element(starts, {}, [](const auto& s) { return s.second; });
  std::fprintf(stderr, "lockstep: %zu jobs have rings there; showing the newest\n", starts.size());
  std::erase_if(rings, [&](const FlightRing& ring) { return ring.job != newest->first; });
  return rings;
}

Rings collect(const fs::path& dir) {
  if (!fs::is_directory(dir)) throw InputError(fmt::format("{} is not a folder", dir.string()));
  Rings rings = read_flight_rings(dir);
  for (const fs::path& flight : {dir, dir / "flight"}) {
    if (rings.empty() && flight != dir && fs::is_directory(flight)) {
      rings = read_flight_rings(flight);
    }
    add_left_behind(flight, rings);
  }
  if (rings.empty()) {
    throw InputError(fmt::format(
        "{} holds no flight recorder rings. Name a run folder, or the node's folder of rings "
        "(flight.dir; by default $TMPDIR, else /dev/shm). A run that ends well leaves none.",
        dir.string()));
  }
  rings = newest_job(std::move(rings));
  // Of two copies of a ring, the one observed last stays.
  std::ranges::sort(rings, [](const FlightRing& a, const FlightRing& b) {
    return std::pair(a.rank, -a.observed_s) < std::pair(b.rank, -b.observed_s);
  });
  // std::unique, not std::ranges::unique, which clang 14 does not compile with libstdc++ 12.
  const auto same_rank = [](const FlightRing& a, const FlightRing& b) { return a.rank == b.rank; };
  rings.erase(std::unique(rings.begin(), rings.end(), same_rank), rings.end());
  return rings;
}

std::string name_of(const FlightCall* call) { return call ? call->what : "-"; }

std::string doing(const FlightRing& ring) {
  if (!ring.last_words.empty()) return "gave up";
  return ring.observed == ProcessState::unknown ? "not checked" : words(ring.observed);
}

std::string table_of(const Rings& rings) {
  std::vector<std::array<std::string, 6>> rows = {
      {"rank", "host", "pid", "last entered", "last completed", "process"}};
  for (const FlightRing& ring : rings) {
    rows.push_back({std::to_string(ring.rank), ring.host, std::to_string(ring.pid),
                    name_of(newest_call(ring)), name_of(newest_completed_call(ring)), doing(ring)});
  }
  std::array<std::size_t, 6> widths{};
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string table;
  for (const auto& row : rows) {
    for (std::size_t i = 0; i + 1 < row.size(); ++i)
      table += fmt::format("{:<{}}  ", row[i], widths[i]);
    table += row.back() + '\n';
  }
  return table;
}

std::string last_words_of(const Rings& rings) {
  constexpr int most = 4;
  int told = 0;
  std::string text;
  for (const FlightRing& ring : rings) {
    if (!ring.last_words.empty() && told++ < most) text += ring.last_words + '\n';
  }
  if (told > most) text += fmt::format("and {} more ranks gave up\n", told - most);
  return text;
}

nlohmann::ordered_json to_json(const FlightRing& ring) {
  nlohmann::ordered_json entry = {{"rank", ring.rank},
                                  {"host", ring.host},
                                  {"pid", ring.pid},
                                  {"process", words(ring.observed)},
                                  {"last_words", ring.last_words}};
  auto& groups = entry["groups"] = nlohmann::ordered_json::array();
  for (const FlightGroupView& group : ring.groups) {
    auto calls = nlohmann::ordered_json::array();
    constexpr const char* states[] = {"", "entered", "agreed", "completed"};
    for (const FlightCall& call : group.calls) {
      calls.push_back({{"call", call.what},
                       {"number", call.sequence},
                       {"state", states[static_cast<int>(call.state)]},
                       {"entered_s", call.entered_s},
                       {"completed_s", call.completed_s}});
    }
    groups.push_back({{"number", group.number},
                      {"members", group.members_text},
                      {"entered", group.entered},
                      {"calls", std::move(calls)}});
  }
  return entry;
}

}  // namespace

ExitCode show_flight(const std::string& dir, bool json) {
  const Rings rings = collect(dir);
  const FlightVerdict verdict = flight_verdict(rings);
  if (json) {
    auto ranks = nlohmann::ordered_json::array();
    for (const FlightRing& ring : rings) ranks.push_back(to_json(ring));
    const nlohmann::ordered_json report = {{"size", rings.front().size},
                                           {"verdict", verdict.text},
                                           {"look_at", verdict.ranks},
                                           {"ranks", std::move(ranks)}};
    train::write_stdout(detail::json_text(report, 2) + '\n');
    return ExitCode::done;
  }
  train::write_stdout(printable(
      fmt::format("{}\n{}verdict: {}\n", table_of(rings), last_words_of(rings), verdict.text)));
  return ExitCode::done;
}

}  // namespace lockstep::utility
