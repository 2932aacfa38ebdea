#include <lockstep/train/parts/weight_averaging.hpp>

#include <algorithm>
#include <memory>
#include <string_view>

#include <lockstep/autograd/functional/batch_norm.hpp>
#include <lockstep/comm/objects.hpp>
#include <lockstep/nn/layers/batch_norm.hpp>
#include <lockstep/tensor/kernels/elementwise/elementwise.hpp>
#include <lockstep/train/strategy/strategy.hpp>

namespace lockstep::train {
namespace {

constexpr std::string_view trained_suffix = "/trained";

/// Over all ranks' batches.
void average_statistics(ProcessGroup& group, const nn::Module& model) {
  constexpr std::string_view counter = "num_batches_tracked";
  const auto buffers = model.named_buffers();
  for (const auto& [name, batches] : buffers) {
    if (!name.ends_with(counter)) continue;
    const std::string layer = name.substr(0, name.size() - counter.size());
    const double mine = batches.item(), all = all_reduce_scalar(group, mine, ReduceOp::sum);
    for (const auto& [other, statistic] : buffers) {
      if (other != layer + "running_mean" && other != layer + "running_var") continue;
      scale(statistic, mine / all);
      group.all_reduce(statistic, ReduceOp::sum).wait();
    }
    batches.fill(all);
  }
}

}  // namespace

WeightAveraging::WeightAveraging(const AveragingOptions& options, const Strategy& strategy)
    : options_(options),
      strategy_(strategy),
      average_(strategy.named_parameters(), options.kind == AveragingOptions::Kind::ema
                                                ? std::optional<double>(options.decay)
                                                : std::nullopt) {
  if (!wants_update_bn()) return;
  for (const auto& [name, buffer] : strategy.model().named_buffers())
    buffers_.emplace_back(buffer, buffer.clone());
}

bool WeightAveraging::wants_update_bn() const {
  return options_.update_bn && !nn::batch_norms_of(strategy_.model()).empty();
}

bool WeightAveraging::is_due(std::int64_t step, std::int64_t epoch) const {
  return options_.every_steps > 0 && step % options_.every_steps == 0 &&
         epoch >= options_.start_epoch;
}

void WeightAveraging::after_step(std::int64_t step, std::int64_t epoch) {
  if (!is_due(step, epoch)) return;
  if (!has_begun()) {
    for (const auto& [own, averaged] : buffers_) averaged.copy_from(own);
  }
  average_.update_parameters();
}

void WeightAveraging::after_epoch(std::int64_t epoch) {
  if (options_.every_steps == 0 && epoch > options_.start_epoch) average_.update_parameters();
}

void WeightAveraging::update_bn(ProcessGroup* group, const std::function<bool()>& forward_next) {
  struct Swapped {  // back, also where a batch cannot be read
    WeightAveraging& averaging;
    ~Swapped() { averaging.swap(); }
  };
  swap();
  const Swapped back{*this};
  optim::update_bn(strategy_.model(), forward_next);
  if (group) average_statistics(*group, strategy_.model());
}

void WeightAveraging::swap() {
  average_.swap();
  for (const auto& [own, averaged] : buffers_) {
    const Tensor kept = own.clone();
    own.copy_from(averaged);
    averaged.copy_from(kept);
  }
}

WeightAveraging::InUse::InUse(std::optional<WeightAveraging>& averaging)
    : averaging_(averaging && averaging->has_begun() ? &*averaging : nullptr) {
  if (averaging_) averaging_->swap();
}

WeightAveraging::InUse::~InUse() {
  if (averaging_) averaging_->swap();
}

StateDict WeightAveraging::state_dict() const {
  StateDict state = strategy_.state_dict();
  if (!has_begun()) return state;
  StateDict used;
  for (const auto& [name, tensor, placement] : state) {
    Tensor found = average_.average_of(tensor);
    if (!found.defined()) {
      const auto at = std::ranges::find(buffers_, tensor.data(),
                                        [](const auto& pair) { return pair.first.data(); });
      found = at == buffers_.end() ? tensor : at->second;
    }
    used.insert(name, found, placement);
  }
  return used;
}

void WeightAveraging::restore(const StateDict& state, std::int64_t n_averaged) {
  average_.state_dict().at("n_averaged").fill(static_cast<double>(n_averaged));
  if (n_averaged > 0) copy_state(state, state_dict());
}

void insert_trained(const StateDict& model, StateDict& optimizer) {
  for (const auto& [name, tensor, placement] : model)
    optimizer.insert(name + std::string(trained_suffix), tensor, placement);
}

std::pair<StateDict, StateDict> split_trained(const StateDict& optimizer) {
  std::pair<StateDict, StateDict> parts;
  for (const auto& [name, tensor, placement] : optimizer) {
    if (name.ends_with(trained_suffix)) {
      parts.first.insert(name.substr(0, name.size() - trained_suffix.size()), tensor, placement);
    } else {
      parts.second.insert(name, tensor, placement);
    }
  }
  return parts;
}

}  // namespace lockstep::train
