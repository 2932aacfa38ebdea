#include "history.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>
#include <cstdio>
#include <fstream>

#include <lockstep/base/clock.hpp>
#include <lockstep/data/files/json_file.hpp>
#include <lockstep/io/own_file.hpp>

namespace lockstep::elastic {
namespace {

using Json = nlohmann::ordered_json;

std::string now_text() {
  const auto now = std::chrono::system_clock::now();
  const auto ms =
      std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch()).count() % 1000;
  return fmt::format("{}.{:03}Z", utc_text("%Y-%m-%dT%H:%M:%S", now), ms);
}

Json hosts_of(const Placement& placement) {
  Json hosts = Json::object();
  for (const Host& host : placement.hosts) hosts[host.name] = host.slots;
  return hosts;
}

std::string ranks_in_words(const Placement& placement) {
  std::vector<std::string> hosts;
  for (const Host& host : placement.hosts)
    hosts.push_back(placement.hosts.size() == 1 ? host.name
                                                : fmt::format("{} ({})", host.name, host.slots));
  constexpr std::size_t most = 8;
  const std::size_t left_out = hosts.size() > most ? hosts.size() - most : 0;
  hosts.resize(hosts.size() - left_out);
  return fmt::format("{} rank{} on {}{}", placement.ranks(), placement.ranks() == 1 ? "" : "s",
                     fmt::join(hosts, ", "),
                     left_out > 0 ? fmt::format(" and {} more hosts", left_out) : "");
}

}  // namespace

const char* words(Why why) noexcept {
  switch (why) {
    case Why::completed:
      return "completed";
    case Why::stopped:
      return "stopped";
    case Why::members:
      return "members";
    case Why::killed:
      return "killed";
    case Why::no_answer:
      return "no answer";
    case Why::hung:
      return "hung";
    case Why::unheeded:
      return "did not stop";
    case Why::host_lost:
      return "host lost";
    case Why::memory:
      return "out of memory";
    case Why::failure:
      return "failure";
    case Why::input:
      return "input";
    case Why::checkpoint:
      return "checkpoint";
    case Why::budget:
      return "budget";
    case Why::too_few:
      return "too few";
  }
  return "";
}

History::History(std::filesystem::path dir) : file_(std::move(dir) / "elastic.jsonl") {}

void History::say(const std::string& text) const {
  std::fputs(fmt::format("lockstep elastic: {}\n", text).c_str(), stderr);
}

void History::write(Json line) {
  line["time"] = now_text();
  kept_.push_back(detail::json_text(line));
  flush();
}

void History::folder_is_there() {
  if (!std::exchange(folder_is_there_, true)) flush();
}

void History::flush() {
  if (!folder_is_there_) return;
  // Opened for each line: the folder may be moved, and other programs read the file meanwhile.
  remove_link(file_);
  std::ofstream out(file_, std::ios::app);
  for (const std::string& text : kept_) out << text << '\n';
  kept_.clear();
  if (!out.flush() && !std::exchange(complained_, true))
    say(fmt::format("warning: cannot write {}", file_.string()));
}

void History::start(int number, const Placement& placement, const std::filesystem::path& from,
                    std::int64_t step, std::int64_t lost_steps, double down_s) {
  write({{"kind", "start"},
         {"start", number},
         {"ranks", placement.ranks()},
         {"hosts", hosts_of(placement)},
         {"checkpoint", from.empty() ? Json(nullptr) : Json(from.filename().string())},
         {"step", step},
         {"lost_steps", lost_steps},
         {"down_s", down_s}});
  std::string where;
  if (!from.empty()) where = fmt::format(", from step {}", step);
  if (lost_steps > 0)
    where += fmt::format(" ({} step{} again)", lost_steps, lost_steps == 1 ? "" : "s");
  say(fmt::format("start {}: {}{}", number, ranks_in_words(placement), where));
}

void History::end(int number, const Placement& placement, const Ending& ending) {
  write({{"kind", "end"},
         {"start", number},
         {"ranks", placement.ranks()},
         {"hosts", hosts_of(placement)},
         {"why", words(ending.why)},
         {"exit_code", ending.code},
         {"blamed_ranks", ending.ranks},
         {"blamed_hosts", ending.hosts},
         {"step", ending.step},
         {"seconds", ending.seconds},
         {"text", ending.text}});
  say(fmt::format("start {} ended after {:.1f} s: {}", number, ending.seconds, ending.text));
}

void History::note(const std::string& text, const std::string& kind) {
  if (!kind.empty()) write({{"kind", kind}, {"text", text}});
  say(text);
}

void History::over(Why why, int code, const std::string& text) {
  write({{"kind", "over"}, {"why", words(why)}, {"exit_code", code}, {"text", text}});
  say(text);
}

}  // namespace lockstep::elastic
