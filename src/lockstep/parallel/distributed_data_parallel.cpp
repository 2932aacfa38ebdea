#include <lockstep/parallel/distributed_data_parallel.hpp>

#include <utility>

#include <fmt/format.h>

#include <lockstep/base/error.hpp>
#include <lockstep/parallel/same_model.hpp>

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
                              make_comm_hook(options)) {}

DistributedDataParallel::DistributedDataParallel(std::shared_ptr<nn::Module> module,
                                                 std::shared_ptr<ProcessGroup> group,
                                                 const DdpOptions& options,
                                                 std::shared_ptr<CommHook> hook)
    : module_(std::move(module)), group_(std::move(group)) {
  const BucketOptions& sizes = options.buckets;
  const CommHook& chosen = *hook;
  expect_same_model(*group_, *module_,
                    fmt::format("first_bucket_bytes = {}, bucket_bytes = {}, communication hook {}",
                                sizes.first_bucket_bytes, sizes.bucket_bytes, chosen.name()));
  validate(sizes);
  broadcast_state(*group_, *module_);
  reducer_ = std::make_unique<Reducer>(
      group_, lay_out_in_buckets(trained_parameters(*module_), sizes, *group_), std::move(hook));
  for (const auto& [name, buffer] : module_->named_buffers()) buffers_.push_back(buffer);
}

void DistributedDataParallel::backward(const Variable& loss, double weight) {
  if (!accumulated_) zero_grad();
  accumulated_ = !syncs_;
  weight *= reducer_->hook().weight_factor();
  if (!syncs_) {
    if (loss.defined()) loss.backward(weight);
    return;
  }
  reducer_->begin();
  try {
    if (loss.defined()) {
      loss.backward(weight, false, [this] { reducer_->expect_what_is_reached(); });
    }
  } catch (...) {
    reducer_->give_up();
    throw;
  }
  reducer_->finish();
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

void DistributedDataParallel::after_join(int last) {
  for (const Bucket& bucket : reducer_->buckets()) group_->broadcast(bucket.values, last).wait();
  broadcast_buffers_from(last);
}

}  // namespace lockstep
