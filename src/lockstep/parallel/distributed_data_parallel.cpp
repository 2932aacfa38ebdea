#include <lockstep/parallel/distributed_data_parallel.hpp>

#include <algorithm>
#include <functional>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <lockstep/base/error.hpp>
#include <lockstep/base/expect_given.hpp>
#include <lockstep/base/log.hpp>
#include <lockstep/parallel/same_model.hpp>
#include <lockstep/parallel/sync_batch_norm.hpp>

namespace lockstep {
namespace {

/// Parameters that require a gradient.
std::vector<Variable> trained_parameters(const nn::Module& module) {
  std::vector<Variable> trained;
  for (const Variable& parameter : module.parameters()) {
    if (parameter.requires_grad()) trained.push_back(parameter);
  }
  return trained;
}

}  // namespace

DistributedDataParallel::DistributedDataParallel(std::shared_ptr<nn::Module> module,
                                                 std::shared_ptr<ProcessGroup> group,
                                                 const DdpOptions& options)
    : DistributedDataParallel(std::move(module), std::move(group), options, nullptr) {}

DistributedDataParallel::DistributedDataParallel(std::shared_ptr<nn::Module> module,
                                                 std::shared_ptr<ProcessGroup> group,
                                                 const DdpOptions& options,
                                                 std::shared_ptr<CommHook> hook)
    : module_(expect_given("DistributedDataParallel", "the module", std::move(module))),
      group_(expect_given("DistributedDataParallel", "the process group", std::move(group))) {
  const BucketOptions& sizes = options.buckets;
  const bool own_hook = hook != nullptr;
  if (!own_hook) hook = make_comm_hook(options);
  expect_same_model(
      *group_, *module_,
      fmt::format("first_bucket_bytes = {}, bucket_bytes = {}, communication hook {}, "
                  "sync_batch_norm = {}, broadcast_buffers_each_forward = {}, shards = {}",
                  sizes.first_bucket_bytes, sizes.bucket_bytes, std::as_const(*hook).name(),
                  options.sync_batch_norm, options.broadcast_buffers_each_forward, options.shards));
  validate(options);
  for (const auto& [name, buffer] : module_->named_buffers()) buffers_.push_back(buffer);
  if (options.shards > 0) {
    if (own_hook)
      throw InputError("sums over shards do not take a communication hook of one's own");
    shards_ = std::make_unique<ShardedStep>(group_, options.shards, buffers_);
    hook = shards_->hook();
  }
  if (options.sync_batch_norm && !shards_) convert_sync_batchnorm(*module_, *group_);
  broadcast_state(*group_, *module_);
  reducer_ = std::make_unique<Reducer>(
      group_, lay_out_in_buckets(trained_parameters(*module_), sizes, *group_), std::move(hook));
  if (shards_) prepare_shards(options.sync_batch_norm);
  broadcasts_buffers_ = options.broadcast_buffers_each_forward;
  for (const auto& parameter : module_->named_parameters()) {
    if (!parameter.variable.requires_grad()) frozen_.push_back(parameter);
  }
}

void DistributedDataParallel::prepare_shards(bool synchronises_all) {
  std::vector<nn::BatchNorm*> layers = nn::batch_norms_of(*module_);
  if (!synchronises_all)
    std::erase_if(layers, [](const auto* layer) { return !layer->has_exchange(); });
  in_turn_.resize(static_cast<std::size_t>(shards_->own()));
  shards_->prepare(reducer_->buckets(), layers, [this](std::int64_t from, std::int64_t to) {
    in_turn_[static_cast<std::size_t>(from)] = at_hand_;
    at_hand_ = in_turn_[static_cast<std::size_t>(to)];
  });
}

void DistributedDataParallel::expect_frozen_unreached() const {
  for (const auto& [name, variable] : frozen_) {
    if (!variable.awaits_gradient()) continue;
    throw Error(fmt::format(
        "DistributedDataParallel: parameter '{}' is trained, but was frozen when this was made, so "
        "that nobody sums its gradient over the ranks. Make it anew after training it again, or "
        "freeze it after making it.",
        name));
  }
}

void DistributedDataParallel::buffers_of_this_step() {
  if (!broadcasts_buffers_ || std::exchange(buffers_are_there_, true)) return;
  broadcast_buffers();
}

Variable DistributedDataParallel::forward(const Variable& x) {
  return forward([&x](nn::Module& module) { return module.forward(x); });
}

Variable DistributedDataParallel::forward(const std::function<Variable(nn::Module&)>& run) {
  if (module_->is_training()) {
    buffers_of_this_step();
    if (shards_) shards_->forward_begins();
  }
  return run(*module_);
}

void DistributedDataParallel::run_shards(const std::function<void(std::int64_t)>& body) {
  const bool in_turns = shards_ && shards_->has_turns() && module_->forward_is_collective();
  const AtHand before = at_hand_;
  try {
    if (in_turns) {
      std::ranges::fill(in_turn_, before);
      zero_grad();
      const auto of_own = [&](std::int64_t shard) { body(shards_->first() + shard); };
      shards_->take_turns(std::cref(of_own));
    } else {
      run_shards_one_by_one(body);
    }
  } catch (...) {
    if (shards_) {
      shards_->give_up();
      at_hand_ = before;
    }
    throw;
  }
  if (!in_turns) return;
  reducer_->begin();
  finish_sum();
}

void DistributedDataParallel::run_shards_one_by_one(
    const std::function<void(std::int64_t)>& body) const {
  const std::int64_t first = shards_ ? shards_->first() : group_->rank(), sums_before = sums_;
  for (std::int64_t i = 0; i < shards(); ++i) body(first + i);
  if (sums_ == sums_before + 1 && (!shards_ || shards_->at_first())) return;
  throw Error(
      "the body of for_each_shard() is to call backward() once for every shard, not counting calls "
      "within no_sync(); for a shard without samples it is backward({}, 0.0)");
}

std::int64_t DistributedDataParallel::shards() const noexcept {
  return shards_ ? shards_->own() : 1;
}

double DistributedDataParallel::loss_of_batch() const {
  if (!shards_) throw Error("the loss of the whole batch is summed only with DdpOptions::shards");
  return shards_->loss();
}

void DistributedDataParallel::backward(const Variable& loss, double weight) {
  if (reducer_->is_running()) {
    throw Error("DistributedDataParallel: backward() from inside backward() is not supported");
  }
  if (!loss.defined() && module_->forward_is_collective()) {
    throw Error(
        "DistributedDataParallel: backward() without a loss on this rank, but the model's forward "
        "is collective in training (SyncBatchNorm), and the other ranks wait for this one in it. A "
        "rank without samples runs forward on a batch of 0 samples and calls "
        "backward(sum(output), 0.0).");
  }
  const bool keeps_apart = shards_ && shards_->keeps_apart();
  if (!at_hand_.accumulated && !keeps_apart) zero_grad();
  at_hand_.accumulated = !at_hand_.syncs;
  weight *= reducer_->comm_hook().weight_factor();
  if (shards_ && loss.defined()) shards_->add_loss(weight * loss.data().item());
  const auto expect_no_frozen = [this] { expect_frozen_unreached(); };
  if (keeps_apart) {
    shards_->backward(loss, weight, at_hand_.syncs, expect_no_frozen);
  } else if (!at_hand_.syncs) {
    if (loss.defined()) loss.backward(weight, false, expect_no_frozen);
  } else {
    backward_and_sum(loss, weight);
  }
}

void DistributedDataParallel::backward_and_sum(const Variable& loss, double weight) {
  buffers_of_this_step();  // without samples there was no forward
  buffers_are_there_ = false;
  reducer_->begin();
  try {
    if (loss.defined()) {
      loss.backward(weight, false, [this] {
        expect_frozen_unreached();
        reducer_->expect_what_is_reached();
      });
    }
  } catch (...) {
    reducer_->give_up();
    if (shards_) shards_->give_up();
    throw;
  }
  finish_sum();
}

void DistributedDataParallel::finish_sum() {
  const bool of_all = comm_hook().sums_over_all();
  reducer_->finish();
  if (shards_) shards_->finish();
  if (++sums_ == 100 && of_all) warn_of_never_used();
}

std::vector<std::string> DistributedDataParallel::never_used() const {
  std::vector<std::string> names;
  const auto named = module_->named_parameters();
  for (const Variable& parameter : reducer_->never_used()) {
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
  for (const Bucket& bucket : reducer_->buckets()) values.push_back(bucket.values);
  return values;
}

void DistributedDataParallel::broadcast_buffers() { broadcast_buffers_from(0); }

void DistributedDataParallel::broadcast_buffers_from(int root) {
  for (const Tensor& buffer : buffers_) group_->broadcast(buffer, root).wait();
}

void DistributedDataParallel::expect_joinable() const {
  if (broadcasts_buffers_ && !buffers_.empty()) {
    throw Error(
        "Join: with DdpOptions::broadcast_buffers_each_forward rank 0's buffers would go to all "
        "ranks also when it has run out of inputs and they stand still. Leave the option out: "
        "Join::finish() gives all ranks the buffers of one that had the most inputs.");
  }
  if (!module_->forward_is_collective()) return;
  throw Error(
      "Join: the model's forward is collective in training (SyncBatchNorm), and a rank that has "
      "run out of inputs makes none. Let it run forward on a batch of 0 samples and call "
      "backward(sum(output), 0.0) instead, or leave SyncBatchNorm out.");
}

void DistributedDataParallel::shadow() {
  for (std::int64_t shard = 0; shard < shards(); ++shard) backward({}, 0.0);
}

void DistributedDataParallel::after_join(int last) {
  for (const Bucket& bucket : reducer_->buckets()) group_->broadcast(bucket.values, last).wait();
  broadcast_buffers_from(last);
}

}  // namespace lockstep
