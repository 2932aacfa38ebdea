#include <lockstep/train/run/run_states.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include <lockstep/base/trace.hpp>
#include <lockstep/train/run/failures.hpp>
#include <lockstep/train/run/run_folder.hpp>
#include <lockstep/train/run/run_plan.hpp>
#include <lockstep/train/strategy/strategy.hpp>

namespace lockstep::train {
RunStates::RunStates(const Training& training, const TrainingParts& parts, Contents contents,
                     const std::optional<std::filesystem::path>& resumed_from)
    : training_(training),
      parts_(parts),
      contents_(std::move(contents)),
      saves_(*training.group, training.plan.checkpoint, training.folder->checkpoints(),
             training.plan.group.timeout, training.folder->expectation()) {
  const CheckpointContents now = contents_();
  // First, so that a run killed after another branch was moved aside does not find that branch's
  // copies.
  copies_.emplace(*training.group, training.plan.checkpoint, training.plan.group.pretended_nodes,
                  training.folder->checkpoints(), now);
  saves_.begin(training.state.step, resumed_from, now.model, now.optimizer);
  told_step_ = saves_.saved_step();
}

NotFinite RunStates::not_finite() const {
  const bool may_be_anything = training_.plan.train.on_nan == TrainOptions::OnNan::ignore;
  return may_be_anything ? NotFinite::save : NotFinite::refuse;
}

void RunStates::tell_saved() {
  if (saves_.saved_step() == told_step_) return;
  told_step_ = saves_.saved_step();
  for (const auto& part : parts_) part->saved(training_, told_step_);
}

void RunStates::after_step(bool ends_epoch) {
  saves_.look();
  tell_saved();
  if (ends_epoch) return;
  if (saves_.is_due(training_.state)) save(Due::now);
  if (copies_->is_due(training_.state.step)) copy();
}

void RunStates::after_epoch(bool is_over) {
  const bool saves = saves_checkpoints(training_.plan.checkpoint), last = is_over && saves;
  const bool due = saves_.is_due(training_.state) || (saves && saves_.is_best(training_.state));
  if (last || due) save(last ? Due::last : Due::now);
  if (!last && copies_->is_due(training_.state.step)) copy();
}

void RunStates::save(Due due) {
  const TrainState& state = training_.state;
  const TraceScope scope("checkpoint", "save", nullptr, state.step);
  if (due == Due::now && saves_.skips(state)) return;
  training_.strategy.broadcast_buffers();
  for (const auto& part : parts_) part->before_save(training_);
  try {
    saves_.start(contents_(), not_finite());
  } catch (const NotFiniteError& error) {
    throw AgreedError(
        fmt::format("{} This is after step {} (epoch {}). {}", error.what(), state.step,
                    state.epoch + (state.position > 0 ? 1 : 0), remedy_for_not_finite),
        ExitCode::failure);
  }
}

void RunStates::copy() {
  if (!std::ranges::all_of(parts_, [](const auto& part) { return part->ranks_are_equal(); }))
    return;
  training_.strategy.broadcast_buffers();
  copies_->save(contents_(), not_finite());
}

void RunStates::finish(bool stopped) {
  saves_.finish();
  // Also if nothing was left to do after a checkpoint from another folder.
  const bool wanted =
      stopped || (saves_checkpoints(training_.plan.checkpoint) && saves_.last_failure().empty());
  if (wanted && training_.state.step != saves_.saved_step()) {
    save(Due::last);
    saves_.finish();
  }
  tell_saved();
  if (!saves_.last_failure().empty()) {
    throw AgreedError(
        fmt::format("{} could not be saved: {}",
                    stopped ? "stopped on request, but the checkpoint" : "the final checkpoint",
                    saves_.last_failure()),
        ExitCode::checkpoint);
  }
  saves_.close();
  copies_->end();
}

}  // namespace lockstep::train
