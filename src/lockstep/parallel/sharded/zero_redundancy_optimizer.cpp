#include <lockstep/parallel/sharded/zero_redundancy_optimizer.hpp>

#include <algorithm>
#include <functional>
#include <iterator>
#include <string_view>
#include <unordered_map>
#include <utility>

#include <lockstep/base/error.hpp>
#include <lockstep/comm/call_label.hpp>
#include <lockstep/optim/optimizer.hpp>
#include <lockstep/parallel/bucket.hpp>
#include <lockstep/parallel/distributed_data_parallel.hpp>
#include <lockstep/parallel/found_inf.hpp>

namespace lockstep {
namespace {

/// [begin, begin + count) of the flattened tensor, in the same memory.
Tensor piece_of(const Tensor& whole, std::int64_t begin, std::int64_t count) {
  return Tensor::over(
      whole.storage(),
      whole.offset_bytes() + static_cast<std::size_t>(begin) * size_of(whole.dtype()), {count},
      whole.dtype());
}

}  // namespace

ZeroRedundancyOptimizer::ZeroRedundancyOptimizer(DistributedDataParallel& ddp, const Make& make)
    : ZeroRedundancyOptimizer({.ddps = {&ddp},
                               .trained = ddp.module().trained_parameters(),
                               .state = ddp.module().state_dict(),
                               .whole = {}},
                              make) {}

ZeroRedundancyOptimizer::ZeroRedundancyOptimizer(const Parts& parts, const Make& make) {
  for (DistributedDataParallel* const ddp : parts.ddps) {
    for (const Tensor& values : ddp->flat_values()) share_out(parts, ddp->group(), values);
  }
  if (pieces_.empty()) {
    throw Error("ZeroRedundancyOptimizer: no parameter of the model is trained");
  }
  std::unordered_map<std::string_view, std::size_t> places;
  for (const auto& parameter : parts.trained) places.emplace(parameter.name, places.size());
  const auto in_order_of_model = [&](std::vector<nn::NamedParameter>& parameters) {
    std::ranges::sort(parameters, {},
                      [&](const auto& parameter) { return places.at(parameter.name); });
  };
  in_order_of_model(parameters_);
  in_order_of_model(pieces_);
  optimizer_ = make(pieces_);
  optimizer_->take_placements(placements_);
}

ZeroRedundancyOptimizer::~ZeroRedundancyOptimizer() = default;

void ZeroRedundancyOptimizer::share_out(const Parts& parts, ProcessGroup& group,
                                        const Tensor& values) {
  std::vector<nn::NamedParameter> parameters;  // in `values`, in the order of memory
  std::ranges::copy_if(parts.trained, std::back_inserter(parameters), [&](const auto& parameter) {
    return parameter.variable.data().storage().get() == values.storage().get();
  });
  if (parameters.empty()) return;
  std::ranges::sort(parameters, {},
                    [](const auto& parameter) { return parameter.variable.data().offset_bytes(); });
  const std::int64_t rank = group.rank(), ranks = group.size();
  const auto place_of = [&](const Tensor& parameter) {
    return static_cast<std::int64_t>((parameter.offset_bytes() - values.offset_bytes()) /
                                     size_of(values.dtype()));
  };
  const Tensor& last = parameters.back().variable.data();
  const std::int64_t all = place_of(last) + last.numel();
  const auto alignment =
      static_cast<std::int64_t>(Storage::padding_bytes / size_of(values.dtype()));
  const std::int64_t run = all / ranks / alignment * alignment, rest = ranks * run;
  const std::int64_t first = rank * run, end = rank + 1 == ranks ? all : first + run;
  Bucket& bucket = buckets_.emplace_back();
  bucket.group = &group;
  bucket.values = values.slice(0, rest).reshape({ranks, run});
  bucket.rest = values.slice(rest, all);
  bucket.own = values.slice(first, first + run);
  bucket.sent = memory_to_reduce(group, {run}, values.dtype(), values.device());
  for (const auto& [name, variable] : parameters) {
    const Placement& placement = parts.state.find(name)->placement;
    parameters_.push_back({name, variable});
    if (std::ranges::find(parts.whole, variable.record(), &Variable::record) != parts.whole.end()) {
      pieces_.push_back({name, variable});
      placements_.insert(name, variable.data(), placement);
      continue;
    }
    const std::int64_t place = place_of(variable.data()), count = variable.data().numel();
    const std::int64_t from = std::clamp(first - place, std::int64_t{0}, count);
    const std::int64_t to = std::clamp(end - place, std::int64_t{0}, count);
    const Variable piece(piece_of(variable.data(), from, to - from), true);
    piece.set_grad_buffer(piece_of(variable.grad_buffer(), from, to - from));
    pieces_.push_back({name, piece});
    placements_.insert(name, piece.data(),
                       Placement::flat_run_of(placement, variable.shape(), from));
  }
}

void ZeroRedundancyOptimizer::zero_grad() {
  for (const auto& parameter : parameters_) parameter.variable.zero_grad();
  optimizer_->zero_grad();
}

void ZeroRedundancyOptimizer::step(double gradient_factor) {
  take_gradients();
  optimizer_->step(gradient_factor);
  gather();
  for (const auto& parameter : parameters_) parameter.variable.increment_version();
}

void ZeroRedundancyOptimizer::take_gradients() {
  for (std::size_t p = 0; p < pieces_.size(); ++p) {
    const Variable& piece = pieces_[p].variable;
    if (parameters_[p].variable.grad().defined()) {
      piece.mark_grad_present();
    } else {
      piece.zero_grad();
    }
  }
}

void ZeroRedundancyOptimizer::gather() {
  works_.clear();
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    const auto& [group, values, rest, own, sent] = buckets_[b];
    const CallLabel label("values of bucket", static_cast<int>(b));
    sent.copy_from(own);
    works_.push_back(group->all_gather(sent, values));
    works_.push_back(group->broadcast(rest, group->size() - 1));
  }
  for (Work& work : works_) work.wait();
}

void ZeroRedundancyOptimizer::agree_on_found_inf() {
  std::vector<ProcessGroup*> groups;
  for (const Bucket& bucket : buckets_) {
    if (std::ranges::find(groups, bucket.group) != groups.end()) continue;
    groups.push_back(bucket.group);
    lockstep::agree_on_found_inf("ZeroRedundancyOptimizer", {bucket.group}, pieces_);
  }
}

StateDict ZeroRedundancyOptimizer::state_dict() const { return optimizer_->state_dict(); }

void ZeroRedundancyOptimizer::load_state_dict(const StateDict& state) {
  optimizer_->load_state_dict(state);
}

}  // namespace lockstep
