#include <lockstep/parallel/distributed_data_parallel.hpp>

#include <algorithm>
#include <functional>
#include <iterator>
#include <unordered_set>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <lockstep/autograd/grad_store.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/base/expect_given.hpp>
#include <lockstep/base/log.hpp>
#include <lockstep/nn/layers/batch_norm.hpp>
#include <lockstep/parallel/comm_hook.hpp>
#include <lockstep/parallel/frozen_parameters.hpp>
#include <lockstep/parallel/gradient_sum.hpp>
#include <lockstep/parallel/held_gradients.hpp>
#include <lockstep/parallel/reducer.hpp>
#include <lockstep/parallel/same_model.hpp>
#include <lockstep/parallel/sync_batch_norm.hpp>
#include <lockstep/parallel/weighted_pass.hpp>

namespace lockstep {
namespace {

/// Of the parameters that require a gradient. Slabs of tensor parallelism, of which other ranks may
/// have others of other sizes, are in buckets of their own: whole parameters lie in the same
/// buckets on those ranks.
std::vector<Bucket> lay_out_trained(const nn::Module& module, const BucketOptions& options,
                                    ProcessGroup& group) {
  std::unordered_set<const void*> divided;
  for (const auto& entry : module.state_dict()) {
    if (entry.placement.sharded) divided.insert(entry.tensor.data());
  }
  std::vector<Variable> whole, slabs;
  for (const Variable& parameter : module.parameters()) {
    if (!parameter.requires_grad()) continue;
    (divided.contains(parameter.data().data()) ? slabs : whole).push_back(parameter);
  }
  std::vector<Bucket> buckets = lay_out_in_buckets(whole, options, group);
  std::ranges::move(lay_out_in_buckets(slabs, options, group), std::back_inserter(buckets));
  return buckets;
}

/// A module without tensors counts as on the host.
Device device_of(const nn::Module& module) {
  const auto parameters = module.parameters();
  return parameters.empty() ? Device{} : parameters.front().data().device();
}

/// Everything that must be equal on all ranks, apart from the model's tensors.
std::string settings_of(nn::Module& module, const DdpOptions& options, const CommHook* hook) {
  const auto layers = nn::batch_norms_of(module);
  return fmt::format(
      "first_bucket_bytes = {}, bucket_bytes = {}, communication hook {}, sync_batch_norm = {}, "
      "broadcast_buffers_each_forward = {}, shards = {}, synchronised layers: {}",
      options.buckets.first_bucket_bytes, options.buckets.bucket_bytes,
      hook ? hook->name() : make_comm_hook(options)->name(), options.sync_batch_norm,
      options.broadcast_buffers_each_forward, options.shards,
      std::ranges::count_if(layers, &nn::BatchNorm::has_exchange));
}

}  // namespace

DistributedDataParallel::DistributedDataParallel(std::shared_ptr<nn::Module> module,
                                                 std::shared_ptr<ProcessGroup> group,
                                                 const DdpOptions& options,
                                                 std::shared_ptr<CommHook> hook)
    : module_(expect_given("DistributedDataParallel", "the module", std::move(module))),
      group_(expect_given("DistributedDataParallel", "the process group", std::move(group))),
      broadcasts_buffers_(options.broadcast_buffers_each_forward) {
  expect_same_model(*group_, *module_, settings_of(*module_, options, hook.get()));
  validate(options, *module_);
  if (options.sync_batch_norm) convert_sync_batchnorm(*module_, *group_);
  broadcast_state(*group_, *module_);
  for (const auto& [name, buffer] : module_->named_buffers()) buffers_.push_back(buffer);
  auto* const observer = static_cast<PassObserver*>(this);
  sum_ = make_gradient_sum(group_, options, std::move(hook), buffers_, device_of(*module_));
  sum_->prepare(lay_out_trained(*module_, options.buckets, *group_), observer);
  for (const auto& parameter : module_->named_parameters()) {
    if (parameter.variable.requires_grad()) continue;
    frozen_.push_back(parameter);
    frozen_hooks_.push_back(parameter.variable.add_grad_hook([] {}, observer));
  }
}

DistributedDataParallel::~DistributedDataParallel() = default;

void DistributedDataParallel::broadcast_buffers_once_a_step() {
  if (!broadcasts_buffers_ || std::exchange(has_broadcast_, true)) return;
  broadcast_buffers();
}

Variable DistributedDataParallel::forward(const Variable& x) {
  return forward([&x](nn::Module& module) { return module.forward(x); });
}

Variable DistributedDataParallel::forward(const std::function<Variable(nn::Module&)>& run) {
  if (module_->is_training()) {
    broadcast_buffers_once_a_step();
    sum_->forward_begins();
  }
  Variable output = run(*module_);
  state_.is_awaited = state_.is_awaited || (state_.syncs && grad_enabled());
  return output;
}

void DistributedDataParallel::run_shards(const std::function<void(std::int64_t)>& body) {
  const State before = state_;
  const std::int64_t first = sum_->first_part(), sums_before = sums_;
  try {
    for (std::int64_t i = 0; i < sum_->parts(); ++i) body(first + i);
    if (sums_ != sums_before + 1 || !sum_->at_first_part()) {
      throw Error(
          "the body of for_each_shard() must call backward() once for every shard, not counting "
          "calls within no_sync(); for a shard without samples call backward({}, 0.0)");
    }
  } catch (...) {
    if (sum_->give_up_parts()) state_ = before;
    throw;
  }
}

void DistributedDataParallel::backward(const Variable& loss, double weight,
                                       const Tensor& loss_scale) {
  if (reducer().is_running()) {
    throw Error("DistributedDataParallel: backward() from inside backward() is not supported");
  }
  if (!loss.defined() && module_->forward_is_collective()) {
    throw Error(
        "DistributedDataParallel: backward() without a loss on this rank, but the model's forward "
        "is collective in training (SyncBatchNorm), and the other ranks wait for this one in it. A "
        "rank without samples runs forward on a batch of 0 samples and calls "
        "backward(sum(output), 0.0).");
  }
  weight *= reducer().comm_hook().weight_factor();
  state_.in_backward = true;
  state_.has_begun = false;
  state_.weight = weight;
  struct Ending {
    State& state;
    WeightedPass weighted;
    ~Ending() { state.in_backward = false; }
  } const ending{state_, {}};
  if (!loss.defined()) {
    static_cast<void>(pass_begins({}, {}, weight));
    leaves_are_known(true, false);
    return pass_is_over();
  }
  try {
    WeightedPass::run("DistributedDataParallel", loss, weight, loss_scale, *this);
  } catch (...) {
    if (!state_.has_begun) pass_has_failed();
    throw;
  }
}

PassObserver::Answer DistributedDataParallel::pass_begins(std::span<const Variable> roots,
                                                          std::span<const Tensor> gradients,
                                                          double seed) {
  state_.has_begun = true;
  const bool is_weighted = state_.is_weighted = WeightedPass::is_running();
  if (state_.syncs && !state_.is_awaited && !state_.in_backward) {
    warn_of_own_gradients();
    hold(is_weighted ? Share::weighted : Share::mean);
    return {};
  }
  if (state_.in_backward) return {true, sum_->pass_begins(roots, {}, state_.weight, is_weighted)};
  return {true, sum_->pass_begins(roots, gradients, seed, is_weighted)};
}

void DistributedDataParallel::leaves_are_known(bool first, bool reached) {
  expect_unreached("DistributedDataParallel", frozen_);
  if (state_.syncs && !sum_->keeps_part())
    broadcast_buffers_once_a_step();  // without samples there was no forward
  state_.sum = reached ? Sum::begun : Sum::waits;
  if (reached) begin_sum(first);
}

void DistributedDataParallel::begin_sum(bool first) {
  hold(state_.is_weighted ? Share::weighted : Share::mean);
  if (!state_.syncs || sum_->keeps_part()) return;
  has_broadcast_ = false;
  reducer().begin(state_.is_weighted ? 1.0 : equal_share(), !first);
  reducer().reached_parameters_are_known();
}

void DistributedDataParallel::pass_is_over() {
  state_.was_local = !state_.syncs;
  if (!state_.syncs || state_.sum == Sum::done) return;
  if (state_.sum == Sum::waits) {
    try {
      begin_sum(true);
    } catch (...) {
      pass_has_failed();
      throw;
    }
  }
  if (!sum_->keeps_part()) return finish_sum();
  state_.is_awaited = false;
  state_.held = Share::mean;
  sum_->keep_part(state_.is_weighted ? 1.0 : equal_share());
}

void DistributedDataParallel::pass_has_failed() noexcept {
  if (sum_->keeps_part()) return sum_->forget_part();
  if (!state_.syncs) return;
  state_.is_awaited = false;
  sum_->give_up();
}

void DistributedDataParallel::gradients_are_in(GradStore& store) {
  const double share = equal_share(), factor = WeightedPass::is_running() ? 1.0 : share;
  const auto each = [&](const auto& visit) {
    for (const Bucket& bucket : reducer().buckets())
      std::ranges::for_each(bucket.parameters, visit);
  };
  if (!state_.syncs || !state_.is_awaited) {
    if (state_.syncs) warn_of_own_gradients();
    return each([&](const Variable& parameter) { store.keep_own(parameter, factor / share); });
  }
  sum_->expect_context();
  state_.sum = Sum::done;
  has_broadcast_ = false;
  HeldGradients held;
  held.move_out(reducer().buckets());
  held.restore_buckets();
  each([&](const Variable& parameter) {
    const Tensor part = store.part_of_sum(parameter, share / factor);
    if (!part.defined()) return;
    parameter.grad_buffer().copy_from(part);
    parameter.mark_grad_present();
  });
  const auto share_before = std::exchange(state_.held, Share::mean);
  try {
    reducer().begin(factor);
    finish_sum();
  } catch (...) {
    reducer().give_up();
    reducer().zero_grad();
    held.add_back();
    state_.held = share_before;
    throw;
  }
  each([&](const Variable& parameter) {
    if (parameter.grad().defined()) store.put_sum(parameter, parameter.grad());
    parameter.zero_grad();
  });
  held.add_back();
  state_.held = share_before;
}

void DistributedDataParallel::hold(Share share) {
  if (std::exchange(state_.held, share) == share) return;
  const double factor = share == Share::weighted ? equal_share() : 1.0 / equal_share();
  if (factor != 1.0) sum_->scale_part(factor);
}

void DistributedDataParallel::finish_sum() {
  const bool of_all = comm_hook().sums_over_all();
  try {
    sum_->finish();
  } catch (...) {
    state_.is_awaited = false;
    sum_->give_up();
    throw;
  }
  state_.is_awaited = false;
  state_.held = Share::mean;
  if (++sums_ == 100 && of_all) warn_of_never_used();
}

void DistributedDataParallel::warn_of_own_gradients() {
  if (group_->size() == 1 || group_->rank() != 0 || std::exchange(has_warned_, true)) return;
  log(LogLevel::warning,
      "a backward pass reached parameters of a DistributedDataParallel whose forward() has not run "
      "since its last sum over ranks: each rank keeps its own gradients of this pass. Call "
      "forward() "
      "of the DistributedDataParallel, not of its module, before each backward pass; for two "
      "losses that share one forward(), make one pass from their sum.");
}

std::vector<std::string> DistributedDataParallel::never_used() const {
  std::vector<std::string> names;
  const auto named = module_->named_parameters();
  for (const Variable& parameter : reducer().never_used()) {
    const auto at = std::ranges::find_if(named, [&](const nn::NamedParameter& one) {
      return one.variable.record() == parameter.record();
    });
    names.push_back(at->name);
  }
  return names;
}

void DistributedDataParallel::warn_of_never_used() const {
  const auto names = never_used();
  if (names.empty() || group_->rank() != 0) return;
  log(LogLevel::warning,
      fmt::format("no rank's loss has depended on {} in the first {} steps: {} not trained. Is a "
                  "layer left out of forward?",
                  fmt::join(names, ", "), sums_, names.size() == 1 ? "it is" : "they are"));
}

std::vector<Tensor> DistributedDataParallel::flat_values() const {
  std::vector<Tensor> values;
  for (const Bucket& bucket : reducer().buckets()) values.push_back(bucket.values);
  return values;
}

void DistributedDataParallel::broadcast_buffers() { broadcast_buffers_from(0); }

void DistributedDataParallel::broadcast_buffers_from(int root) {
  for (const Tensor& buffer : buffers_) group_->broadcast(buffer, root).wait();
}

void DistributedDataParallel::expect_joinable() const {
  if (broadcasts_buffers_ && !buffers_.empty()) {
    throw Error(
        "Join: DdpOptions::broadcast_buffers_each_forward would broadcast rank 0's buffers even "
        "after it has run out of inputs and no longer updates them. Leave the option out: "
        "Join::finish() gives all ranks the buffers of a rank with the most inputs.");
  }
  if (!module_->forward_is_collective()) return;
  throw Error(
      "Join: the model's forward is collective in training (SyncBatchNorm), but a rank without "
      "inputs runs no forward. Run forward on a batch of 0 samples there and call "
      "backward(sum(output), 0.0), or leave out SyncBatchNorm.");
}

void DistributedDataParallel::shadow() {
  if (!state_.was_local) zero_grad();
  for (std::int64_t shard = 0; shard < sum_->parts(); ++shard) backward({}, 0.0);
}

void DistributedDataParallel::after_join(int last) {
  for (const Bucket& bucket : reducer().buckets()) group_->broadcast(bucket.values, last).wait();
  broadcast_buffers_from(last);
}

void DistributedDataParallel::ask_along(std::function<bool()> question) {
  reducer().ask_along(std::move(question));
}

bool DistributedDataParallel::any_said_yes() const noexcept { return reducer().any_said_yes(); }

void DistributedDataParallel::zero_grad() { sum_->zero_grad(); }

GradientSumStats DistributedDataParallel::stats() const noexcept { return sum_->stats(); }

CommHook& DistributedDataParallel::comm_hook() const noexcept { return reducer().comm_hook(); }

double DistributedDataParallel::equal_share() const { return sum_->equal_share(); }

Reducer& DistributedDataParallel::reducer() const noexcept { return sum_->reducer(); }

}  // namespace lockstep
