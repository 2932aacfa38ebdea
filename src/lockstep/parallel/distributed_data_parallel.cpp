#include <lockstep/parallel/distributed_data_parallel.hpp>

#include <utility>

#include <fmt/format.h>

#include <lockstep/base/error.hpp>
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

void validate(const BucketOptions& options) {
  if (options.first_bucket_bytes < 1 || options.bucket_bytes < 1) {
    throw InputError(
        fmt::format("DistributedDataParallel: first_bucket_bytes ({}) and bucket_bytes "
                    "({}) must be at least 1",
                    options.first_bucket_bytes, options.bucket_bytes));
  }
}

}  // namespace

DistributedDataParallel::DistributedDataParallel(std::shared_ptr<nn::Module> module,
                                                 std::shared_ptr<ProcessGroup> group,
                                                 const DdpOptions& options)
    : DistributedDataParallel(std::move(module), std::move(group), options,
                              make_comm_hook(options.comm_hook, options.power_sgd)) {}

DistributedDataParallel::DistributedDataParallel(std::shared_ptr<nn::Module> module,
                                                 std::shared_ptr<ProcessGroup> group,
                                                 const DdpOptions& options,
                                                 std::shared_ptr<CommHook> hook)
    : module_(std::move(module)), group_(std::move(group)) {
  const BucketOptions& sizes = options.buckets;
  if (options.shards > 0) {
    if (dynamic_cast<const AllReduceHook*>(hook.get()) == nullptr) {
      throw InputError(
          fmt::format("sums over shards are exact: they go with the communication hook all_reduce, "
                      "not with {}",
                      static_cast<const CommHook&>(*hook).name()));
    }
    shards_ = std::make_unique<ShardedStep>(group_, options.shards);
    hook = shards_->hook();
  }
  const CommHook& chosen = *hook;
  expect_same_model(
      *group_, *module_,
      fmt::format("first_bucket_bytes = {}, bucket_bytes = {}, communication hook {}, "
                  "sync_batch_norm = {}",
                  sizes.first_bucket_bytes, sizes.bucket_bytes, chosen.name(),
                  options.sync_batch_norm));
  validate(sizes);
  if (options.sync_batch_norm) convert_sync_batchnorm(*module_, *group_);
  broadcast_state(*group_, *module_);
  reducer_ = std::make_unique<Reducer>(
      group_, lay_out_in_buckets(trained_parameters(*module_), sizes, *group_), std::move(hook));
  for (const auto& [name, buffer] : module_->named_buffers()) buffers_.push_back(buffer);
  if (shards_) shards_->prepare(buffers_);
}

Variable DistributedDataParallel::forward(const Variable& x) {
  if (shards_ && module_->is_training()) shards_->forward_begins();
  return module_->forward(x);
}

std::int64_t DistributedDataParallel::shards() const noexcept {
  return shards_ ? shards_->own() : 1;
}

double DistributedDataParallel::loss_of_batch() const {
  if (!shards_) throw Error("the loss of the whole batch is summed only with DdpOptions::shards");
  return shards_->loss();
}

void DistributedDataParallel::backward(const Variable& loss, double weight) {
  if (!loss.defined() && module_->forward_is_collective()) {
    throw Error(
        "DistributedDataParallel: backward() without a loss on this rank, but the model's forward "
        "is collective in training (SyncBatchNorm), and the other ranks wait for this one in it. A "
        "rank without samples runs forward on a batch of 0 samples and calls "
        "backward(sum(output), 0.0).");
  }
  if (!accumulated_) zero_grad();
  accumulated_ = !syncs_;
  if (shards_ && loss.defined()) shards_->add_loss(weight * loss.data().item());
  const bool another_shard = shards_ && syncs_ && !shards_->at_last();
  if (!syncs_ || another_shard) {
    if (loss.defined()) loss.backward(weight);
    if (another_shard) {
      reducer_->fill_what_is_missing();
      shards_->keep(bucket_count());
    }
    return;
  }
  reducer_->begin();
  try {
    if (loss.defined()) {
      loss.backward(weight, false, [this] { reducer_->expect_what_is_reached(); });
    }
  } catch (...) {
    reducer_->give_up();
    if (shards_) shards_->give_up();
    throw;
  }
  reducer_->finish();
  if (shards_) shards_->finish();
}

void DistributedDataParallel::broadcast_buffers() {
  for (const Tensor& buffer : buffers_) group_->broadcast(buffer, 0).wait();
}

}  // namespace lockstep
