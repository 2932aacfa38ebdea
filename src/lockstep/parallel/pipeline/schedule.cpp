#include <lockstep/parallel/pipeline/schedule.hpp>

#include <algorithm>
#include <initializer_list>
#include <utility>

#include <lockstep/base/error.hpp>

namespace lockstep {
namespace {

using Kind = PipelineAction::Kind;

void expect_positive(const char* maker,
                     std::initializer_list<std::pair<const char*, int>> numbers) {
  for (const auto& [what, value] : numbers) {
    if (value >= 1) continue;
    throw InputError(std::string(maker) + ": " + what + " is " + std::to_string(value) +
                     "; it must be at least 1.");
  }
}

/// Without actions: stage s on rank s mod ranks.
PipelineSchedule empty_schedule(std::string name, int ranks, int stages, int microbatches) {
  PipelineSchedule schedule{std::move(name), microbatches, {}, {}};
  for (int stage = 0; stage < stages; ++stage) schedule.rank_of_stage.push_back(stage % ranks);
  schedule.actions.resize(static_cast<std::size_t>(ranks));
  return schedule;
}

/// Runs of micro-batches that pass a rank's stages together: each of at least `ranks` (all of them,
/// if there are fewer), the larger ones first.
std::vector<std::pair<int, int>> groups_of(int ranks, int microbatches) {
  const int groups = std::max(1, microbatches / ranks);
  std::vector<std::pair<int, int>> result;
  for (int i = 0, begin = 0; i < groups; ++i) {
    const int size = microbatches / groups + (i < microbatches % groups ? 1 : 0);
    result.emplace_back(begin, begin + size);
    begin += size;
  }
  return result;
}

PipelineSchedule make_1f1b(std::string name, int ranks, int stages_per_rank, int microbatches) {
  PipelineSchedule schedule =
      empty_schedule(std::move(name), ranks, ranks * stages_per_rank, microbatches);
  const auto groups = groups_of(ranks, microbatches);
  for (int rank = 0; rank < ranks; ++rank) {
    const auto order = [&](Kind kind) {
      std::vector<PipelineAction> all;
      for (const auto& [begin, end] : groups) {
        for (int i = 0; i < stages_per_rank; ++i) {
          const int chunk = kind == Kind::forward ? i : stages_per_rank - 1 - i;
          for (int k = begin; k < end; ++k) all.push_back({kind, chunk * ranks + rank, k});
        }
      }
      return all;
    };
    const auto forwards = order(Kind::forward), backwards = order(Kind::backward);
    const int to_the_end = ranks - rank - 1;  // stages between this rank's and the last
    const int largest = groups.front().second - groups.front().first;
    const auto warm_up = std::min(
        forwards.size(),
        static_cast<std::size_t>(
            stages_per_rank == 1 ? to_the_end : 2 * to_the_end + (stages_per_rank - 1) * largest));
    auto& actions = schedule.actions[static_cast<std::size_t>(rank)];
    for (std::size_t i = 0; i < forwards.size() + warm_up; ++i) {
      if (i < forwards.size()) actions.push_back(forwards[i]);
      if (i >= warm_up) actions.push_back(backwards[i - warm_up]);
    }
  }
  return schedule;
}

}  // namespace

const char* name_of(PipelineAction::Kind kind) noexcept {
  switch (kind) {
    case Kind::forward:
      return "forward";
    case Kind::backward:
      return "backward";
    case Kind::backward_input:
      return "backward (input)";
    case Kind::backward_weight:
      return "backward (weights)";
  }
  return "unknown action";
}

std::string to_string(const PipelineAction& action) {
  return std::string(name_of(action.kind)) + " of stage " + std::to_string(action.stage) +
         " of micro-batch " + std::to_string(action.microbatch);
}

PipelineSchedule gpipe(int ranks, int microbatches) {
  expect_positive("gpipe", {{"ranks", ranks}, {"microbatches", microbatches}});
  PipelineSchedule schedule = empty_schedule("gpipe", ranks, ranks, microbatches);
  for (int rank = 0; rank < ranks; ++rank) {
    auto& actions = schedule.actions[static_cast<std::size_t>(rank)];
    for (const Kind kind : {Kind::forward, Kind::backward}) {
      for (int k = 0; k < microbatches; ++k) actions.push_back({kind, rank, k});
    }
  }
  return schedule;
}

PipelineSchedule one_f_one_b(int ranks, int microbatches) {
  expect_positive("one_f_one_b", {{"ranks", ranks}, {"microbatches", microbatches}});
  return make_1f1b("1f1b", ranks, 1, microbatches);
}

PipelineSchedule interleaved_1f1b(int ranks, int stages_per_rank, int microbatches) {
  expect_positive(
      "interleaved_1f1b",
      {{"ranks", ranks}, {"stages_per_rank", stages_per_rank}, {"microbatches", microbatches}});
  return make_1f1b("interleaved 1f1b", ranks, stages_per_rank, microbatches);
}

PipelineSchedule zero_bubble_h1(int ranks, int microbatches) {
  expect_positive("zero_bubble_h1", {{"ranks", ranks}, {"microbatches", microbatches}});
  PipelineSchedule schedule = empty_schedule("zero-bubble h1", ranks, ranks, microbatches);
  for (int rank = 0; rank < ranks; ++rank) {
    auto& actions = schedule.actions[static_cast<std::size_t>(rank)];
    const int warm_up = std::min(ranks - rank - 1, microbatches);
    for (int k = 0; k < warm_up; ++k) actions.push_back({Kind::forward, rank, k});
    for (int k = 0; k < microbatches + rank; ++k) {
      if (k + warm_up < microbatches) actions.push_back({Kind::forward, rank, k + warm_up});
      if (k < microbatches) actions.push_back({Kind::backward_input, rank, k});
      if (k >= rank) actions.push_back({Kind::backward_weight, rank, k - rank});
    }
  }
  return schedule;
}

}  // namespace lockstep
