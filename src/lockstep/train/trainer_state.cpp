#include <lockstep/train/trainer.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <variant>

#include <lockstep/base/log.hpp>
#include <lockstep/checkpoint/file/checkpoint_file.hpp>
#include <lockstep/checkpoint/reader.hpp>
#include <lockstep/deck/deck_source.hpp>
#include <lockstep/nn/module.hpp>
#include <lockstep/optim/optimizer.hpp>
#include <lockstep/parallel/comm_hook.hpp>
#include <lockstep/parallel/distributed_data_parallel.hpp>
#include <lockstep/train/parts/weight_averaging.hpp>
#include <lockstep/train/run/run_plan.hpp>
#include <lockstep/train/strategy/strategy.hpp>
#include <lockstep/train/task/task.hpp>

namespace lockstep::train {
namespace {

std::string loss_name(int rank) { return "loss." + std::to_string(rank); }

std::int64_t count_of(const TrainState& state, const std::string& name) {
  const auto at = std::ranges::find(state.counts, name, [](const auto& c) { return c.first; });
  return at == state.counts.end() ? -1 : at->second;
}

/// A communication hook's state, and the rest.
std::pair<StateDict, StateDict> split_hook_state(const StateDict& optimizer) {
  std::pair<StateDict, StateDict> parts;
  for (const auto& [name, tensor, placement] : optimizer) {
    const bool of_hook = name.find(comm_hook_slot) != std::string::npos;
    (of_hook ? parts.first : parts.second).insert(name, tensor, placement);
  }
  return parts;
}

/// optimizer.kind of a resolved deck; empty if there is none.
std::string optimizer_kind_of(const std::string& deck) {
  try {
    const detail::DeckTree tree = detail::load_deck_text(deck, "the checkpoint's deck");
    const detail::DeckValue* kind = tree.find("optimizer", "kind");
    const auto* name = kind ? std::get_if<std::string>(&kind->data) : nullptr;
    return name ? *name : "";
  } catch (const InputError&) {
    return "";
  }
}

}  // namespace

void Trainer::expect_continues(const TrainState& saved) const {
  const auto contradiction = [](const char* key, std::int64_t now, std::int64_t then) {
    throw InputError(fmt::format(
        "the deck says {} = {}, but the checkpoint was written with {}, so the run cannot continue "
        "where it stopped. Use --set {}={}, or start a new run without --resume.",
        key, now, then, key, then));
  };
  if (saved.seed != state_.seed) contradiction("train.seed", state_.seed, saved.seed);
  if (saved.position > 0) {
    const std::int64_t batch_size = count_of(saved, "batch_size");
    if (batch_size != plan_->train.batch_size)
      contradiction("train.batch_size", plan_->train.batch_size, batch_size);
    const std::int64_t samples = count_of(saved, "samples");
    if (samples != batches_.samples()) {
      throw InputError(fmt::format(
          "the checkpoint was written in the middle of an epoch of {} samples, but the data set "
          "now has {}. Use the same data, or a checkpoint from the end of an epoch.",
          samples, batches_.samples()));
    }
    if (saved.position > batches_.steps()) {
      throw InputError(
          fmt::format("the checkpoint was written after step {} of an epoch, but an epoch now has "
                      "{}. Use the same "
                      "train.drop_last, or a checkpoint from the end of an epoch.",
                      saved.position, batches_.steps()));
    }
  }
}

void Trainer::expect_continues(const CheckpointFile& file) const {
  expect_continues(load_facts(file).train);
  const StateDict model_state = state_dict();
  for (const auto& [name, tensor, placement] : model_state) {
    const DatasetEntry* saved = file.manifest().find("/model/" + name);
    const Shape& shape = placement.sharded ? placement.global : tensor.shape();
    if (saved != nullptr && saved->shape == shape && saved->dtype == tensor.dtype()) continue;
    throw CheckpointError(
        fmt::format("the checkpoint does not fit the deck's model: {} {}", name,
                    saved == nullptr ? "is missing"
                                     : fmt::format("is {} where the model has {}",
                                                   to_string(saved->shape), to_string(shape))));
  }
}

PartState Trainer::state_of(std::size_t i, CheckpointContents& checkpoint) const {
  const bool is_callers = i + callers_parts_ >= parts_.size();
  return {checkpoint, is_callers ? parts_[i]->name() : ""};
}

void Trainer::restore(const CheckpointContents& checkpoint) {
  const TrainState& saved = checkpoint.train;
  expect_continues(saved);
  state_ = saved;
  CheckpointContents of_parts = checkpoint;
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    PartState state = state_of(i, of_parts);
    parts_[i]->restore(training_, state);
  }
  const auto [hook, of_optimizer] = split_hook_state(without_part_tensors(checkpoint.optimizer));
  const auto [trained, slots] = split_trained(of_optimizer);
  try {
    strategy_->load_state_dict(trained.size() > 0 ? trained : checkpoint.model);
    load_optimizer(checkpoint.deck, slots);
  } catch (const InputError&) {
    throw;
  } catch (const Error& error) {
    throw CheckpointError(
        fmt::format("the checkpoint does not fit the deck's model or optimizer: {}", error.what()));
  }
  if (const DistributedDataParallel* ddp = strategy_->ddp()) {
    ddp->comm_hook().set_step(state_.step);
    const std::string news = ddp->comm_hook().load_state_dict(model().named_parameters(), hook);
    if (!news.empty() && ranks_.all->rank() == 0) log(LogLevel::warning, news);
  }
  epoch_loss_ = 0;
  const auto ranks_then = std::ranges::count_if(
      saved.sums, [](const auto& sum) { return sum.first.starts_with("loss."); });
  for (const auto& [name, sum] : saved.sums) {
    if (!name.starts_with("loss.")) continue;
    const ProcessGroup& data = *ranks_.data;
    if (ranks_then == data.size() ? name == loss_name(data.rank()) : data.rank() == 0)
      epoch_loss_ += sum;
  }
}

void Trainer::load_optimizer(const std::string& deck_then, const StateDict& slots) {
  const std::string now(plan_->optimizer.kind.name()), then = optimizer_kind_of(deck_then);
  const bool is_another = !then.empty() && then != now;
  try {
    strategy_->load_optimizer_state_dict(slots);
  } catch (const Error&) {
    if (!is_another) throw;
    throw InputError(fmt::format(
        "the deck says optimizer.kind = \"{}\", but the checkpoint was written with \"{}\". Use "
        "that, or start a new run with train.init_from = \"FILE\", which takes the weights alone.",
        now, then));
  }
  if (is_another && ranks_.all->rank() == 0) {
    log(LogLevel::warning,
        fmt::format("optimizer.kind is \"{}\", and was \"{}\" in the checkpoint: its state is "
                    "taken over, as its parts have the same names.",
                    now, then));
  }
}

StateDict Trainer::hook_state() const {
  const DistributedDataParallel* ddp = strategy_->ddp();
  return ddp ? ddp->comm_hook().state_dict(model().named_parameters()) : StateDict();
}

StateDict Trainer::slots_to_load(const Manifest& manifest) const {
  StateDict slots = strategy_->optimizer_state_dict();
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
    const auto [first, last] = rows_to_take_over(then, ranks_.data->rank(), ranks_.data->size());
    const Tensor rows = Tensor::empty(saved->shape.with_leading(last - first), saved->dtype);
    slots.insert(name, rows, Placement::rows(rows, first, then));
  }
  return slots;
}

CheckpointContents Trainer::contents(const std::string& deck) {
  read_figures(unseen_, 0);
  CheckpointContents contents{
      state_dict(),     strategy_->optimizer_state_dict(), state_, deck, library_versions_,
      task_.signature()};
  const Tensor sums = Tensor::empty({ranks_.data->size(), 1}, DType::f64);
  ranks_.data->all_gather(Tensor::from(std::vector<double>{epoch_loss_}, {1}), sums).wait();
  contents.train.sums.clear();
  int rank = 0;
  for (const double sum : sums.to_vector<double>())
    contents.train.sums.emplace_back(loss_name(rank++), sum);
  contents.train.counts = {{"batch_size", plan_->train.batch_size},
                           {"samples", batches_.samples()}};
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    PartState state = state_of(i, contents);
    parts_[i]->save(state);
  }
  contents.optimizer.insert_all("", hook_state());
  return contents;
}

}  // namespace lockstep::train
