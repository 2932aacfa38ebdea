#include <lockstep/parallel/pipeline/simulation.hpp>

#include <algorithm>
#include <cmath>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include <lockstep/base/error.hpp>

namespace lockstep {
namespace {

using Kind = PipelineAction::Kind;

std::size_t at(int i) { return static_cast<std::size_t>(i); }

/// Executes a schedule's dependencies.
class Execution {
 public:
  Execution(const PipelineSchedule& schedule, std::span<const PipelineCosts> costs)
      : schedule_(schedule), costs_(costs) {
    expect_complete();
    const std::size_t size = at(schedule.stages()) * at(schedule.microbatches);
    forward_.assign(size, not_yet);
    backward_.assign(size, not_yet);
    next_.assign(at(schedule.ranks()), 0);
    free_.assign(at(schedule.ranks()), 0.0);
    result_.busy.assign(at(schedule.ranks()), 0.0);
    result_.peak_activations.assign(at(schedule.ranks()), 0);
    result_.begins.resize(at(schedule.ranks()));
    held_.assign(at(schedule.ranks()), 0);
  }

  PipelineSimulation run() {
    for (int rank = 0; rank < schedule_.ranks(); ++rank) runnable_.push_back(rank);
    while (!runnable_.empty()) {
      const int rank = runnable_.back();
      runnable_.pop_back();
      advance(rank);
    }
    for (int rank = 0; rank < schedule_.ranks(); ++rank) {
      if (next_[at(rank)] < actions_of(rank).size()) refuse_deadlock(rank);
    }
    result_.makespan = *std::ranges::max_element(free_);
    double busy = 0.0;
    for (const double rank : result_.busy) busy += rank;
    const double all = result_.makespan * schedule_.ranks();
    result_.bubble = all > 0.0 ? 1.0 - busy / all : 0.0;
    return std::move(result_);
  }

 private:
  static constexpr double not_yet = -1.0;

  [[nodiscard]] const std::vector<PipelineAction>& actions_of(int rank) const {
    return schedule_.actions[at(rank)];
  }
  [[nodiscard]] const PipelineCosts& costs_of(int stage) const {
    return costs_.size() == 1 ? costs_[0] : costs_[at(stage)];
  }
  [[nodiscard]] std::size_t place(int stage, int microbatch) const {
    return at(stage) * at(schedule_.microbatches) + at(microbatch);
  }
  [[nodiscard]] int rank_of(int stage) const { return schedule_.rank_of_stage[at(stage)]; }

  [[noreturn]] void refuse(const std::string& sentence) const {
    throw InputError("pipeline schedule \"" + schedule_.name + "\": " + sentence);
  }

  void expect_complete() const {
    const int stages = schedule_.stages(), ranks = schedule_.ranks();
    if (stages < 1 || ranks < 1 || schedule_.microbatches < 1) {
      refuse(
          fmt::format("{} stages, {} ranks and {} micro-batches; at least one of each is needed.",
                      stages, ranks, schedule_.microbatches));
    }
    if (costs_.size() != 1 && costs_.size() != at(stages)) {
      refuse(fmt::format("{} costs for {} stages; give one for each, or one for all.",
                         costs_.size(), stages));
    }
    for (int stage = 0; stage < stages; ++stage) {
      if (rank_of(stage) >= 0 && rank_of(stage) < ranks) continue;
      refuse(fmt::format("stage {} is on rank {}, but the ranks are 0 to {}.", stage,
                         rank_of(stage), ranks - 1));
    }
    // Bits of the kinds that a stage has for a micro-batch.
    std::vector<unsigned> seen(at(stages) * at(schedule_.microbatches), 0);
    for (int rank = 0; rank < ranks; ++rank) {
      for (const PipelineAction& action : actions_of(rank)) {
        const auto [kind, stage, microbatch] = action;
        if (stage < 0 || stage >= stages || microbatch < 0 ||
            microbatch >= schedule_.microbatches) {
          refuse(fmt::format("rank {} has {}, but there are {} stages and {} micro-batches.", rank,
                             to_string(action), stages, schedule_.microbatches));
        }
        if (rank_of(stage) != rank) {
          refuse(fmt::format("rank {} has {}, but that stage is on rank {}.", rank,
                             to_string(action), rank_of(stage)));
        }
        unsigned& bits = seen[place(stage, microbatch)];
        const unsigned bit = bits_of(kind);
        if ((bits & bit) != 0) {
          refuse(fmt::format("rank {} has {} twice.", rank, to_string(action)));
        }
        bits |= bit;
      }
    }
    for (int stage = 0; stage < stages; ++stage) {
      for (int k = 0; k < schedule_.microbatches; ++k) {
        const unsigned missing = ~seen[place(stage, k)] & (bits_of(Kind::forward) | both);
        if (missing == 0) continue;
        const Kind kind = (missing & bits_of(Kind::forward)) != 0          ? Kind::forward
                          : (missing & both) == both                       ? Kind::backward
                          : (missing & bits_of(Kind::backward_input)) != 0 ? Kind::backward_input
                                                                           : Kind::backward_weight;
        refuse(fmt::format("rank {} has no {}.", rank_of(stage), to_string({kind, stage, k})));
      }
    }
  }

  static unsigned bits_of(Kind kind) {
    switch (kind) {
      case Kind::forward:
        return 1;
      case Kind::backward:
        return both;
      case Kind::backward_input:
        return 2;
      case Kind::backward_weight:
        break;
    }
    return 4;
  }
  static constexpr unsigned both = 2 | 4;

  /// Inputs of an action, at most two, and their arrival times.
  struct Needs {
    std::optional<PipelineAction> missing;
    double ready = 0.0;
  };
  [[nodiscard]] Needs needs_of(const PipelineAction& action) const {
    const int stage = action.stage, k = action.microbatch;
    Needs needs;
    const auto need = [&](const std::vector<double>& ends, Kind of, int from) {
      const double end = ends[place(from, k)];
      if (end == not_yet) needs.missing = PipelineAction{of, from, k};
      const double message = rank_of(from) == rank_of(stage) ? 0.0 : costs_of(from).message;
      needs.ready = std::max(needs.ready, end + message);
    };
    if (action.kind == Kind::forward) {
      if (stage > 0) need(forward_, Kind::forward, stage - 1);
    } else if (action.kind == Kind::backward_weight) {
      need(backward_, Kind::backward_input, stage);
    } else {
      if (stage + 1 < schedule_.stages()) need(backward_, Kind::backward, stage + 1);
      need(forward_, Kind::forward, stage);
    }
    return needs;
  }

  void advance(int rank) {
    for (std::size_t& next = next_[at(rank)]; next < actions_of(rank).size(); ++next) {
      const PipelineAction& action = actions_of(rank)[next];
      const Needs needs = needs_of(action);
      if (needs.missing) return;
      const double begin = std::max(needs.ready, free_[at(rank)]);
      result_.begins[at(rank)].push_back(begin);
      finish(rank, action, begin);
    }
  }

  void finish(int rank, const PipelineAction& action, double begin) {
    const auto [kind, stage, k] = action;
    const PipelineCosts& costs = costs_of(stage);
    const double input = kind == Kind::backward_weight ? 0.0 : costs.backward_input;
    const double weight = kind == Kind::backward_input ? 0.0 : costs.backward_weight;
    const double cost = kind == Kind::forward ? costs.forward : input + weight;
    free_[at(rank)] = begin + cost;
    result_.busy[at(rank)] += cost;
    int& held = held_[at(rank)];
    int& peak = result_.peak_activations[at(rank)];
    if (kind == Kind::forward) {
      forward_[place(stage, k)] = begin + cost;
      peak = std::max(peak, ++held);
      if (stage + 1 < schedule_.stages()) runnable_.push_back(rank_of(stage + 1));
      return;
    }
    if (kind != Kind::backward_input) --held;
    if (kind == Kind::backward_weight) return;
    backward_[place(stage, k)] = begin + cost;
    if (stage > 0) runnable_.push_back(rank_of(stage - 1));
  }

  [[noreturn]] void refuse_deadlock(int rank) const {
    const PipelineAction& action = actions_of(rank)[next_[at(rank)]];
    const PipelineAction missing = *needs_of(action).missing;
    const int other = rank_of(missing.stage);
    const auto& its = actions_of(other);
    const std::string why = other == rank ? std::string("which it has later in its order")
                                          : fmt::format("and rank {} waits too, in {}", other,
                                                        to_string(its[next_[at(other)]]));
    refuse(fmt::format(
        "a deadlock. Rank {} waits in {} (its action {}) for {}, {}. Change the order of actions.",
        rank, to_string(action), next_[at(rank)], to_string(missing), why));
  }

  const PipelineSchedule& schedule_;
  std::span<const PipelineCosts> costs_;
  std::vector<double> forward_, backward_;  ///< ends, by stage and micro-batch
  std::vector<std::size_t> next_;           ///< action of each rank
  std::vector<double> free_;                ///< of each rank: end of its last action
  std::vector<int> held_;
  std::vector<int> runnable_;  ///< ranks for which something may have arrived
  PipelineSimulation result_;
};

std::string cell_of(const PipelineAction& action, bool names_stages) {
  constexpr std::string_view letters = "FBIW";
  return (names_stages ? std::to_string(action.stage) : "") +
         letters[static_cast<std::size_t>(action.kind)] + std::to_string(action.microbatch);
}

}  // namespace

void expect_deadlock_free(const PipelineSchedule& schedule) {
  static_cast<void>(simulate(schedule));
}

PipelineSimulation simulate(const PipelineSchedule& schedule, ListView<PipelineCosts> costs) {
  return Execution(schedule, costs).run();
}

std::string to_string(const PipelineSchedule& schedule) {
  const PipelineSimulation simulation = simulate(schedule);
  const bool names_stages = schedule.stages() > schedule.ranks();
  std::size_t width = 1;
  std::vector<std::vector<std::string>> cells(at(schedule.ranks()));
  for (int rank = 0; rank < schedule.ranks(); ++rank) {
    auto& row = cells[at(rank)];
    row.assign(static_cast<std::size_t>(std::lround(simulation.makespan)), ".");
    for (std::size_t i = 0; i < schedule.actions[at(rank)].size(); ++i) {
      const PipelineAction& action = schedule.actions[at(rank)][i];
      const auto begin = static_cast<std::size_t>(std::lround(simulation.begins[at(rank)][i]));
      row[begin] = cell_of(action, names_stages);
      width = std::max(width, row[begin].size());
      if (action.kind == Kind::backward) row[begin + 1] = "-";
    }
  }
  std::string text = fmt::format("{}, {} ranks, {} stages, {} micro-batches: bubble {:.1f} %\n",
                                 schedule.name, schedule.ranks(), schedule.stages(),
                                 schedule.microbatches, 100.0 * simulation.bubble);
  const std::size_t digits = std::to_string(schedule.ranks() - 1).size();
  for (int rank = 0; rank < schedule.ranks(); ++rank) {
    std::string line = fmt::format("rank {:>{}} ", rank, digits);
    for (const std::string& cell : cells[at(rank)]) line += fmt::format(" {:<{}}", cell, width);
    text += line.substr(0, line.find_last_not_of(' ') + 1) + '\n';
  }
  return text;
}

}  // namespace lockstep
