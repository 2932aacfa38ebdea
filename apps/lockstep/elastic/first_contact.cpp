#include "first_contact.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

namespace lockstep::elastic {
namespace {

constexpr double processes_looked_at_s = 1;  // limit over the whole machine
constexpr double idle_at_most_s = 4;         // after its last descendant was seen alive

}  // namespace

FirstContact::Host::Host(const std::string& host, const Launcher& launcher)
    : name(host), question(launcher.probe(host), {.with_errors = true}), works(Clock::now()) {}

FirstContact::FirstContact(const Launcher& launcher, const Hosts& hosts) {
  for (const auto& host : hosts) hosts_.emplace_back(host.name, launcher);
}

void FirstContact::look() {
  for (Host& host : hosts_) {
    if (host.answers || !host.question.wait(Seconds(0))) continue;
    host.answers = host.question.code() == 0;
    if (*host.answers) slowest_s_ = std::max(slowest_s_, seconds_since(begun_));
  }
  if (seconds_since(looked_at_processes_) > processes_looked_at_s) look_at_processes();
}

void FirstContact::look_at_processes() {
  looked_at_processes_ = Clock::now();
  std::vector<pid_t> asked;
  for (const Host& host : hosts_) {
    if (!host.answers) asked.push_back(host.question.pid());
  }
  if (asked.empty()) return;
  const auto at_work = parents_of_living(asked);
  for (Host& host : hosts_) {
    if (host.answers) continue;
    if (std::ranges::find(at_work, host.question.pid()) != at_work.end()) {
      host.has_worked = true;
      host.works = Clock::now();
      continue;
    }
    // A launcher without a child may yet start one, or have another process do it.
    const bool has_failed = host.has_worked || (seconds_since(begun_) > patience_s &&
                                                !first_words(host.question.output()).empty());
    if (has_failed && seconds_since(host.works) > idle_at_most_s) host.answers = false;
  }
}

bool FirstContact::has_answered() const {
  return std::ranges::any_of(hosts_, [](const Host& host) { return host.answers.value_or(false); });
}

std::string FirstContact::words() const {
  for (const Host& host : hosts_) {
    if (auto words = first_words(host.question.output()); !words.empty()) return words;
  }
  return {};
}

std::optional<std::string> FirstContact::failure() const {
  const bool all_have_failed =
      std::ranges::all_of(hosts_, [](const Host& host) { return host.answers && !*host.answers; });
  if (hosts_.empty() || !all_have_failed) return std::nullopt;
  auto said = words();
  return said.empty() ? "no message" : said;
}

std::optional<std::string> FirstContact::news() {
  if (has_told_ || has_answered() || seconds_since(begun_) < patience_s) return std::nullopt;
  has_told_ = true;
  constexpr std::size_t most = 8;
  std::vector<std::string> names;
  for (const Host& host : hosts_) {
    if (names.size() < most) names.push_back(host.name);
  }
  if (hosts_.size() > most) names.push_back(fmt::format("{} more", hosts_.size() - most));
  const std::string said = words();
  return fmt::format(
      "no host has answered for {:.0f} s ({}); the launcher is still connecting and {}", patience_s,
      fmt::join(names, ", "), said.empty() ? "has printed nothing" : "has printed: " + said);
}

}  // namespace lockstep::elastic
