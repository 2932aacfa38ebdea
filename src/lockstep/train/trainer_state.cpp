#include <lockstep/train/trainer.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include <lockstep/base/log.hpp>
#include <lockstep/checkpoint/checkpoint_file.hpp>
#include <lockstep/checkpoint/reader.hpp>
#include <lockstep/checkpoint/writer.hpp>
#include <lockstep/comm/objects.hpp>
#include <lockstep/deck/deck.hpp>
#include <lockstep/train/agreement.hpp>
#include <lockstep/train/run_local_copies.hpp>
#include <lockstep/train/run_saves.hpp>

namespace lockstep::train {
namespace {

/// Where EarlyStopping stands.
constexpr const char *best_name = "early_stop_best", *epochs_without_name = "early_stop_epochs";

/// Updates of WeightAveraging.
constexpr const char* averaged_name = "n_averaged";

/// GradScaler's state.
constexpr const char *scale_name = "grad_scale", *growth_tracker_name = "grad_scale_growth";
/// Where ReduceLROnPlateau stands.
constexpr const char *plateau_lr_name = "plateau_lr", *plateau_best_name = "plateau_best",
                     *plateau_bad_name = "plateau_bad_epochs",
                     *plateau_cooldown_name = "plateau_cooldown";

std::string loss_name(int rank) { return "loss." + std::to_string(rank); }

std::int64_t count_of(const TrainState& state, const std::string& name) {
  const auto at = std::ranges::find(state.counts, name, [](const auto& c) { return c.first; });
  return at == state.counts.end() ? -1 : at->second;
}

std::optional<double> sum_of(const TrainState& state, const std::string& name) {
  const auto at = std::ranges::find(state.sums, name, [](const auto& s) { return s.first; });
  return at == state.sums.end() ? std::nullopt : std::optional(at->second);
}

/// A communication hook's, and the rest.
std::pair<StateDict, StateDict> split_hook_state(const StateDict& optimizer) {
  std::pair<StateDict, StateDict> parts;
  for (const auto& [name, tensor, placement] : optimizer) {
    const bool of_hook = name.find(comm_hook_slot) != std::string::npos;
    (of_hook ? parts.first : parts.second).insert(name, tensor, placement);
  }
  return parts;
}

}  // namespace

void Trainer::expect_continues(const TrainState& saved) const {
  const auto contradiction = [](const char* key, std::int64_t now, std::int64_t then) {
    throw InputError(fmt::format(
        "the deck says {} = {}, but the checkpoint was written with {}, so the run cannot go "
        "on where it stopped. Use --set {}={}, or start a new run without --resume.",
        key, now, then, key, then));
  };
  if (saved.seed != state_.seed) contradiction("train.seed", state_.seed, saved.seed);
  if (saved.position > 0) {
    const std::int64_t batch_size = count_of(saved, "batch_size");
    if (batch_size != plan_.train.batch_size)
      contradiction("train.batch_size", plan_.train.batch_size, batch_size);
    const std::int64_t samples = count_of(saved, "samples");
    if (samples != batches_.samples()) {
      throw InputError(fmt::format(
          "the checkpoint was written in the middle of an epoch of {} samples, but the data set "
          "now has {}. Use the same data, or a checkpoint from the end of an epoch.",
          samples, batches_.samples()));
    }
    if (saved.position > batches_.steps()) {
      throw InputError(fmt::format(
          "the checkpoint was written after step {} of an epoch, which now has {}. Use the same "
          "train.drop_last, or a checkpoint from the end of an epoch.",
          saved.position, batches_.steps()));
    }
  }
}

void Trainer::expect_continues(const CheckpointFile& file) const {
  expect_continues(load_facts(file).train);
  const StateDict model_state = model().state_dict();
  for (const auto& [name, tensor, placement] : model_state) {
    const DatasetEntry* saved = file.manifest().find("/model/" + name);
    const Shape& shape = placement.sharded ? placement.global : tensor.shape();
    if (saved != nullptr && saved->shape == shape && saved->dtype == tensor.dtype()) continue;
    throw CheckpointError(
        fmt::format("the checkpoint is of another model than the deck's: {} {}", name,
                    saved == nullptr ? "is missing"
                                     : fmt::format("is {} where the model has {}",
                                                   to_string(saved->shape), to_string(shape))));
  }
}

void Trainer::restore(const CheckpointContents& checkpoint) {
  const TrainState& saved = checkpoint.train;
  expect_continues(saved);
  const auto [hook, of_optimizer] = split_hook_state(checkpoint.optimizer);
  const auto [trained, slots] = split_trained(of_optimizer);
  try {
    if (averaging_) {
      averaging_->restore(checkpoint.model,
                          std::max<std::int64_t>(0, count_of(saved, averaged_name)));
    }
    model().load_state_dict(trained.size() > 0 ? trained : checkpoint.model);
    optimizer_->load_state_dict(slots);
  } catch (const Error& error) {
    throw CheckpointError(fmt::format(
        "the checkpoint is of another model or optimizer than the deck's: {}", error.what()));
  }
  state_ = saved;
  ddp_->set_step(state_.step);
  const std::string news = ddp_->comm_hook().load_state_dict(model().named_parameters(), hook);
  if (!news.empty() && group_->rank() == 0) log(LogLevel::warning, news);
  if (averager_) averager_->set_step(state_.step);
  epoch_loss_ = 0;
  // A best figure says nothing to another metric, which begins anew.
  Deck then = Deck::parse(checkpoint.deck, "the deck in the checkpoint");
  if (then.read<TrainOptions>("train").early_stop_metric == plan_.train.early_stop_metric) {
    early_stopping_.restore(sum_of(saved, best_name),
                            std::max<std::int64_t>(0, count_of(saved, epochs_without_name)));
  }
  if (plateau_) {
    auto at = plateau_->state();
    at.lr = sum_of(saved, plateau_lr_name).value_or(at.lr);
    if (then.read<optim::ScheduleOptions>("schedule").metric == plan_.schedule.metric) {
      at.best = sum_of(saved, plateau_best_name);
      at.bad_epochs = std::max<std::int64_t>(0, count_of(saved, plateau_bad_name));
    }
    at.cooldown = std::max<std::int64_t>(0, count_of(saved, plateau_cooldown_name));
    plateau_->restore(at);
  }
  if (saved.position > 0) {  // the rate of the last step, which the epoch's row tells
    optim::apply_schedule(plan_.schedule, plateau_ ? plateau_->lr() : plan_.optimizer.lr,
                          saved.epoch, saved.step - 1, *optimizer_);
  }
  if (scaler_) {
    if (const auto scale = sum_of(saved, scale_name))
      scaler_->state_dict().at("scale").fill(*scale);
    scaler_->state_dict()
        .at("growth_tracker")
        .fill(static_cast<double>(std::max<std::int64_t>(0, count_of(saved, growth_tracker_name))));
  }
  const auto ranks_then = std::ranges::count_if(
      saved.sums, [](const auto& sum) { return sum.first.starts_with("loss."); });
  for (const auto& [name, sum] : saved.sums) {
    if (!name.starts_with("loss.")) continue;
    if (ranks_then == group_->size() ? name == loss_name(group_->rank()) : group_->rank() == 0)
      epoch_loss_ += sum;
  }
}

StateDict Trainer::hook_state() const {
  return ddp_->comm_hook().state_dict(model().named_parameters());
}

StateDict Trainer::optimizer_state(bool of_all_ranks) const {
  StateDict state = optimizer_->state_dict();
  if (averaging_) insert_trained(model().state_dict(), state);
  if (of_all_ranks) state.insert_all("", hook_state());
  return state;
}

StateDict Trainer::slots_to_load(const Manifest& manifest) const {
  StateDict slots = optimizer_->state_dict();
  for (const auto& [name, tensor, placement] : hook_state()) {
    const DatasetEntry* saved = manifest.find("/optimizer/" + name);
    const bool of_other_ranks = saved != nullptr && placement.sharded &&
                                saved->shape.dims() == tensor.dims() &&
                                saved->shape != placement.global &&
                                saved->shape == placement.global.with_leading(saved->shape[0]);
    if (!of_other_ranks) {
      slots.insert(name, tensor, placement);
      continue;
    }
    const std::int64_t then = saved->shape[0];
    const auto [first, last] = rows_to_take_over(then, group_->rank(), group_->size());
    const Tensor rows = Tensor::empty(saved->shape.with_leading(last - first), saved->dtype);
    slots.insert(name, rows, Placement::rows(rows, first, then));
  }
  return slots;
}

CheckpointContents Trainer::contents(const std::string& deck, bool of_all_ranks) {
  CheckpointContents contents{averaging_ ? averaging_->state_dict() : model().state_dict(),
                              optimizer_state(of_all_ranks),
                              state_,
                              deck,
                              library_versions_,
                              task_.signature()};
  const Tensor sums = Tensor::empty({group_->size(), 1}, DType::f64);
  group_->all_gather(Tensor::from(std::vector<double>{epoch_loss_}, {1}), sums).wait();
  contents.train.sums.clear();
  int rank = 0;
  for (const double sum : sums.to_vector<double>())
    contents.train.sums.emplace_back(loss_name(rank++), sum);
  contents.train.counts = {{"batch_size", plan_.train.batch_size}, {"samples", batches_.samples()}};
  if (plan_.train.early_stop_patience > 0) {
    if (early_stopping_.best())
      contents.train.sums.emplace_back(best_name, *early_stopping_.best());
    contents.train.counts.emplace_back(epochs_without_name, early_stopping_.epochs_without());
  }
  if (averaging_) contents.train.counts.emplace_back(averaged_name, averaging_->n_averaged());
  if (plateau_) {
    const auto& at = plateau_->state();
    contents.train.sums.emplace_back(plateau_lr_name, at.lr);
    if (at.best) contents.train.sums.emplace_back(plateau_best_name, *at.best);
    contents.train.counts.emplace_back(plateau_bad_name, at.bad_epochs);
    contents.train.counts.emplace_back(plateau_cooldown_name, at.cooldown);
  }
  if (scaler_) {
    contents.train.sums.emplace_back(scale_name, scaler_->scale());
    contents.train.counts.emplace_back(
        growth_tracker_name,
        static_cast<std::int64_t>(scaler_->state_dict().at("growth_tracker").item()));
  }
  return contents;
}

void Trainer::make_replicas_equal() {
  ddp_->broadcast_buffers();
  if (!averager_ || !averager_->is_local()) return;
  averager_->average_now();
  for (const auto& entry : optimizer_->state_dict()) {
    const auto op = is_floating(entry.tensor.dtype()) ? ReduceOp::avg : ReduceOp::max;
    group_->all_reduce(entry.tensor, op).wait();
  }
}

void Trainer::compare_replicas() {
  if (!replicas_ || compared_step_ == state_.step) return;
  if (const auto difference = replicas_->compare()) {
    throw AgreedError(
        fmt::format("the ranks' replicas are not equal after step {} (epoch {}): {}. A memory, a "
                    "processor or a link may be faulty: look at it, or leave the machine out, and "
                    "go on with --resume. Nothing was saved of it.",
                    state_.step, state_.epoch + (state_.position > 0 ? 1 : 0), difference->text),
        ExitCode::failure);
  }
  compared_step_ = state_.step;
}

NotFinite Trainer::not_finite() const {
  const bool may_be_anything = plan_.train.on_nan == TrainOptions::OnNan::ignore;
  return may_be_anything ? NotFinite::save : NotFinite::refuse;
}

void Trainer::save(RunSaves& saves, const std::string& deck, Due due) {
  const TraceScope scope("checkpoint", "save", nullptr, state_.step);
  compare_replicas();
  if (due == Due::now && saves.skips(state_)) return;
  make_replicas_equal();
  try {
    saves.start(contents(deck), not_finite());
  } catch (const NotFiniteError& error) {
    throw AgreedError(
        fmt::format("{} This is after step {} (epoch {}). {}", error.what(), state_.step,
                    state_.epoch + (state_.position > 0 ? 1 : 0), remedy_for_not_finite),
        ExitCode::failure);
  }
}

void Trainer::copy(RunLocalCopies& copies, const std::string& deck) {
  if (averager_ && averager_->is_local()) return;
  ddp_->broadcast_buffers();
  copies.save(contents(deck, copies.are_of_all_ranks()), not_finite());
}

void Trainer::save_last(RunSaves& saves, const std::string& deck, bool stopped) {
  saves.finish();
  // Also where nothing was left to do of what another folder's checkpoint had come to.
  const bool wanted = stopped || (saves_checkpoints() && saves.last_failure().empty());
  if (wanted && state_.step != saves.saved_step()) {
    save(saves, deck, Due::last);
    saves.finish();
  }
  if (!saves.last_failure().empty()) {
    throw AgreedError(
        fmt::format("{} could not be saved: {}",
                    stopped ? "stopped on request, but the checkpoint" : "the final checkpoint",
                    saves.last_failure()),
        ExitCode::checkpoint);
  }
  saves.close();
}

}  // namespace lockstep::train
