#include <lockstep/comm/flight/verdict.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include <lockstep/comm/flight/rank_list.hpp>

namespace lockstep {
namespace {

using State = FlightCall::State;

bool is_over(const FlightCall& call) { return call.state == State::completed; }

/// The call with the latest start for which `counts` is true.
template <class F>
const FlightCall* newest(const FlightRing& ring, const F& counts) {
  const FlightCall* found = nullptr;
  for (const FlightGroupView& group : ring.groups) {
    for (const FlightCall& call : group.calls) {
      if (counts(call) && (!found || call.entered_s >= found->entered_s)) found = &call;
    }
  }
  return found;
}

/// One collective of one group, for the members that have a ring.
struct CollectiveView {
  std::map<int, const FlightCall*> there;  ///< has a record of it
  std::vector<int> absent;                 ///< has not entered it
};

struct Finding {
  enum class Kind { mismatch, absence, standstill, message };
  Kind kind = Kind::absence;
  std::string text = {};
  std::vector<int> ranks = {};
  double since_s = 0;
};

class Diagnosis {
 public:
  explicit Diagnosis(std::span<const FlightRing> rings) : rings_(rings) {
    for (const FlightRing& ring : rings) {
      now_s_ = std::max(now_s_, ring.observed_s);
      some_live_ = some_live_ || ring.observed_s > 0;
      by_rank_[ring.rank] = &ring;
      for (const FlightGroupView& group : ring.groups) {
        groups_[{group.number, group.members_text}][ring.rank] = &group;
      }
    }
    for (int r = 0; r < rings.front().size; ++r) {
      if (!by_rank_.contains(r)) missing_.push_back(r);
    }
  }

  [[nodiscard]] FlightVerdict verdict() const {
    std::vector<Finding> findings;
    for (const auto& [key, members] : groups_) look_at_collectives(key, members, findings);
    for (const FlightRing& ring : rings_) look_at_messages(ring, findings);
    const Finding* worst = choose(findings);
    FlightVerdict verdict = worst ? FlightVerdict{worst->text, worst->ranks} : nothing_waits();
    if (!missing_.empty()) {
      verdict.text +=
          fmt::format("; no ring of {} was found: {} not begun, ended, or lost {} node",
                      ranks_in_words(missing_), missing_.size() == 1 ? "it has" : "they have",
                      missing_.size() == 1 ? "its" : "their");
      if (verdict.ranks.empty()) verdict.ranks = missing_;
    }
    return verdict;
  }

 private:
  using Members = std::map<int, const FlightGroupView*>;
  using Key = std::pair<std::uint64_t, std::string>;

  [[nodiscard]] const FlightRing& ring(int rank) const { return *by_rank_.at(rank); }

  // ---- collectives

  static CollectiveView collective_at(const Members& members, std::uint64_t sequence) {
    CollectiveView collective;
    for (const auto& [rank, group] : members) {
      for (const FlightCall& call : group->calls) {
        if (!call.is_message && call.sequence == sequence) collective.there[rank] = &call;
      }
      if (group->entered < sequence) collective.absent.push_back(rank);
    }
    return collective;
  }

  void look_at_collectives(const Key& key, const Members& members,
                           std::vector<Finding>& findings) const {
    std::optional<std::uint64_t> oldest;  // the oldest that a rank waits for
    std::uint64_t newest = 0;
    for (const auto& [rank, group] : members) {
      newest = std::max(newest, group->entered);
      for (const FlightCall& call : group->calls) {
        if (call.is_message || is_over(call)) continue;
        oldest = std::min(oldest.value_or(call.sequence), call.sequence);
      }
    }
    if (!oldest) return;
    Members all = members;  // including those that have not made the group yet
    for (const int rank : members.begin()->second->members) {
      static const FlightGroupView nothing_yet;
      if (by_rank_.contains(rank)) all.try_emplace(rank, &nothing_yet);
    }
    const CollectiveView collective = collective_at(all, *oldest);
    if (auto found = mismatch(key, collective)) return findings.push_back(std::move(*found));
    if (!collective.absent.empty()) return findings.push_back(absence(key, collective));
    // All ranks have entered it. One may have stopped inside and so not entered a later one.
    const CollectiveView later = collective_at(all, newest);
    if (!later.absent.empty() && !later.there.empty() && stopped_among(later.absent)) {
      return findings.push_back(absence(key, later));
    }
    findings.push_back(standstill(key, collective));
  }

  [[nodiscard]] bool stopped_among(const std::vector<int>& ranks) const {
    return std::ranges::any_of(ranks, [&](int r) { return !can_run(ring(r).observed); });
  }

  [[nodiscard]] std::optional<Finding> mismatch(const Key& key,
                                                const CollectiveView& collective) const {
    std::map<std::uint64_t, std::vector<int>> callers;
    for (const auto& [rank, call] : collective.there) callers[call->fingerprint].push_back(rank);
    if (callers.size() < 2) return std::nullopt;
    // The smallest side first; of equal sides, that of rank 0 last.
    std::vector<std::vector<int>> sides;
    for (auto& [fingerprint, ranks] : callers) sides.push_back(std::move(ranks));
    std::ranges::sort(sides, [](const auto& a, const auto& b) {
      return std::pair(a.size(), -a.front()) < std::pair(b.size(), -b.front());
    });
    Finding finding{.kind = Finding::Kind::mismatch, .ranks = sides.front()};
    for (const auto& ranks : sides) {
      finding.text += fmt::format("{}{} called {}", finding.text.empty() ? "" : "; ",
                                  ranks_in_words(ranks), collective.there.at(ranks.front())->what);
    }
    finding.text += in_group(key) +
                    ": all ranks must make the same calls in the same order, with equal shapes, "
                    "dtypes, roots and reductions";
    return finding;
  }

  [[nodiscard]] Finding absence(const Key& key, const CollectiveView& collective) const {
    std::vector<int> waiting;
    for (const auto& [rank, call] : collective.there) {
      if (!is_over(*call)) waiting.push_back(rank);
    }
    const double since = first_entry(collective);
    Finding finding{.kind = Finding::Kind::absence, .ranks = collective.absent, .since_s = since};
    finding.text = fmt::format(
        "{} {} not entered {}{}; {} wait{} there{}", ranks_in_words(collective.absent),
        collective.absent.size() == 1 ? "has" : "have", collective.there.begin()->second->what,
        in_group(key), ranks_in_words(waiting), waiting.size() == 1 ? "s" : "", age(since));
    add_details(finding);
    return finding;
  }

  [[nodiscard]] Finding standstill(const Key& key, const CollectiveView& collective) const {
    std::vector<int> waiting, behind;
    auto furthest = State::entered;
    for (const auto& [rank, call] : collective.there) furthest = std::max(furthest, call->state);
    for (const auto& [rank, call] : collective.there) {
      if (!is_over(*call)) waiting.push_back(rank);
      if (!is_over(*call) && (call->state < furthest || !can_run(ring(rank).observed))) {
        behind.push_back(rank);
      }
    }
    const double since = first_entry(collective);
    Finding finding{.kind = Finding::Kind::standstill, .ranks = behind, .since_s = since};
    finding.text =
        fmt::format("every rank has entered {}{}, but {} {} not completed it{}",
                    collective.there.begin()->second->what, in_group(key), ranks_in_words(waiting),
                    waiting.size() == 1 ? "has" : "have", age(since));
    if (behind.empty()) finding.text += ": they are inside MPI, or still computing";
    add_details(finding);
    return finding;
  }

  static double first_entry(const CollectiveView& collective) {
    double first = collective.there.begin()->second->entered_s;
    for (const auto& [rank, call] : collective.there) first = std::min(first, call->entered_s);
    return first;
  }

  // ---- messages

  void look_at_messages(const FlightRing& of, std::vector<Finding>& findings) const {
    for (const FlightGroupView& group : of.groups) {
      for (const FlightCall& call : group.calls) {
        if (!call.is_message || call.serves || is_over(call)) continue;
        Finding finding{.kind = Finding::Kind::message, .since_s = call.entered_s};
        finding.text =
            fmt::format("rank {} waits in {}{}", of.rank, call.what, age(call.entered_s));
        if (call.peer >= 0)
          finding.text += fmt::format(", which rank {} has not matched", call.peer);
        if (by_rank_.contains(call.peer)) finding.ranks = {call.peer};
        add_details(finding);
        findings.push_back(std::move(finding));
      }
    }
  }

  // ---- choice

  /// The root cause: a mismatch, a stopped rank, then ranks that do not wait themselves, then the
  /// oldest.
  [[nodiscard]] const Finding* choose(const std::vector<Finding>& findings) const {
    const auto weight = [&](const Finding& finding) {
      if (finding.kind == Finding::Kind::mismatch) return 0;
      if (some_live_ && stopped_among(finding.ranks)) return 1;
      const auto waits = [&](int rank) {
        const auto awaits = [](const FlightCall& c) { return !is_over(c) && !c.serves; };
        return newest(ring(rank), awaits) != nullptr;
      };
      if (finding.ranks.empty()) return 5;
      if (std::ranges::none_of(finding.ranks, waits)) return 2;
      return std::ranges::all_of(finding.ranks, waits) ? 4 : 3;
    };
    const auto order = [&](const Finding& a, const Finding& b) {
      return std::pair(weight(a), a.since_s) < std::pair(weight(b), b.since_s);
    };
    const auto worst = std::ranges::min_element(findings, order);
    return worst == findings.end() ? nullptr : &*worst;
  }

  [[nodiscard]] FlightVerdict nothing_waits() const {
    std::vector<int> dead;
    for (const FlightRing& one : rings_) {
      if (some_live_ && !can_run(one.observed)) dead.push_back(one.rank);
    }
    Finding finding{.kind = Finding::Kind::standstill, .ranks = dead};
    finding.text = "no rank waits for another: every operation that was entered has completed";
    add_details(finding);
    return {finding.text, finding.ranks};
  }

  // ---- words

  /// Empty for a group of all ranks.
  [[nodiscard]] std::string in_group(const Key& key) const {
    const FlightGroupView& group = *groups_.at(key).begin()->second;
    const auto& members = group.members;
    if (group.name.empty() && static_cast<int>(members.size()) == rings_.front().size) return "";
    return fmt::format(" of group {} ({})",
                       group.name.empty() ? std::to_string(key.first) : group.name,
                       members.empty() ? "many ranks" : ranks_in_words(members));
  }

  [[nodiscard]] std::string age(double since_s) const {
    return now_s_ > since_s ? fmt::format(" since {:.1f} s", now_s_ - since_s) : "";
  }

  /// The last operation and the present state of each rank to blame.
  void add_details(Finding& finding) const {
    constexpr std::size_t most = 4;
    for (std::size_t i = 0; i < std::min(most, finding.ranks.size()); ++i) {
      const FlightRing& one = ring(finding.ranks[i]);
      finding.text += "; " + last_operation(one) + "; " + process(one);
    }
    if (finding.ranks.size() > most) {
      finding.text += fmt::format("; and {} more ranks likewise", finding.ranks.size() - most);
    }
  }

  [[nodiscard]] std::string last_operation(const FlightRing& one) const {
    const FlightCall* last = newest(one, [](const FlightCall& c) { return !c.serves; });
    if (!last) return fmt::format("rank {} has called nothing yet", one.rank);
    std::string text = fmt::format("rank {}'s last operation was {}", one.rank, last->what);
    if (!is_over(*last)) return text + ", which it has not completed";
    const double age_s = now_s_ - last->completed_s;
    return text + (now_s_ > 0 ? fmt::format(", completed {:.1f} s ago", std::max(age_s, 0.0))
                              : ", completed");
  }

  [[nodiscard]] std::string process(const FlightRing& one) const {
    // Do not report that this process has gone if all have.
    const std::string doing = one.observed == ProcessState::unknown || !some_live_
                                  ? ""
                                  : fmt::format(" {}", words(one.observed));
    return fmt::format("its process {} {}on node {}{}", one.pid, doing.empty() ? "was " : "",
                       one.host, doing);
  }

  std::span<const FlightRing> rings_;
  std::map<int, const FlightRing*> by_rank_;
  std::map<Key, Members> groups_;
  std::vector<int> missing_;
  double now_s_ = 0;        // latest time at which a process was observed; 0: never
  bool some_live_ = false;  // some process was alive when observed
};

}  // namespace

FlightVerdict flight_verdict(std::span<const FlightRing> rings) {
  return Diagnosis(rings).verdict();
}

const FlightCall* newest_call(const FlightRing& ring) {
  return newest(ring, [](const FlightCall&) { return true; });
}

const FlightCall* newest_completed_call(const FlightRing& ring) { return newest(ring, is_over); }

}  // namespace lockstep
