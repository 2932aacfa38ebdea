#include <lockstep/parallel/distributed_data_parallel.hpp>

#include <utility>

#include <fmt/format.h>

#include <lockstep/base/clock.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/comm/call_label.hpp>
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

/// Declares zero to be the gradient of a parameter that this rank's loss did not reach.
void fill_missing_gradient(const Variable& parameter) {
  if (parameter.grad().defined()) return;
  parameter.grad_buffer().zero();
  parameter.mark_grad_present();
}

}  // namespace

DistributedDataParallel::DistributedDataParallel(std::shared_ptr<nn::Module> module,
                                                 std::shared_ptr<ProcessGroup> group,
                                                 const DdpOptions& options)
    : module_(std::move(module)), group_(std::move(group)) {
  const BucketOptions& sizes = options.buckets;
  expect_same_model(*group_, *module_,
                    fmt::format("first_bucket_bytes = {}, bucket_bytes = {}",
                                sizes.first_bucket_bytes, sizes.bucket_bytes));
  validate(sizes);
  broadcast_state(*group_, *module_);
  make_buckets(trained_parameters(*module_), sizes);
  for (const auto& [name, buffer] : module_->named_buffers()) buffers_.push_back(buffer);
}

DistributedDataParallel::~DistributedDataParallel() {
  for (const Bucket& bucket : buckets_) {
    for (const Variable& parameter : bucket.parameters) parameter.set_grad_hook({});
  }
}

void DistributedDataParallel::make_buckets(const std::vector<Variable>& parameters,
                                           const BucketOptions& options) {
  std::vector<Tensor> data;
  for (const Variable& parameter : parameters) data.push_back(parameter.data());
  for (const BucketPlan& plan : plan_buckets(data, options)) {
    const std::size_t index = buckets_.size();
    Bucket& bucket = buckets_.emplace_back();
    const auto elements = static_cast<std::int64_t>(plan.bytes / size_of(plan.dtype));
    // Zeros: the gaps between gradients travel too.
    const Device device = data[plan.slices.front().parameter].device();
    bucket.memory = device.type == DeviceType::host ? group_->shared_buffer({elements}, plan.dtype)
                                                    : Tensor::zeros({elements}, plan.dtype, device);
    for (const auto& [parameter, offset_bytes] : plan.slices) {
      const Variable& variable = parameters[parameter];
      variable.set_grad_buffer(
          Tensor::over(bucket.memory.storage(), offset_bytes, variable.shape(), plan.dtype));
      variable.set_grad_hook([this, index] { gradient_is_final(index); });
      bucket.parameters.push_back(variable);
    }
  }
}

void DistributedDataParallel::backward(const Variable& loss, double weight) {
  begin();
  struct Finally {
    bool& reducing;
    ~Finally() { reducing = false; }
  } const finally{reducing_};
  if (loss.defined()) loss.backward(weight);
  finish();
}

void DistributedDataParallel::broadcast_buffers() {
  for (const Tensor& buffer : buffers_) group_->broadcast(buffer, 0).wait();
}

void DistributedDataParallel::zero_grad() const {
  for (const Bucket& bucket : buckets_) {
    for (const Variable& parameter : bucket.parameters) parameter.zero_grad();
  }
}

void DistributedDataParallel::begin() {
  zero_grad();
  for (Bucket& bucket : buckets_) bucket.unready = bucket.parameters.size();
  started_ = 0;
  reducing_ = true;
}

void DistributedDataParallel::gradient_is_final(std::size_t bucket) {
  if (!reducing_) return;
  if (--buckets_[bucket].unready == 0) start_ready_buckets();
  // Drives those under way: where nothing else does, MPI moves bytes only inside its calls.
  for (std::size_t i = 0; i < started_; ++i) static_cast<void>(buckets_[i].work.test());
}

void DistributedDataParallel::start_ready_buckets() {
  // Strictly in order, whatever finishes first: all ranks must make the same calls.
  while (started_ < buckets_.size() && buckets_[started_].unready == 0) {
    Bucket& bucket = buckets_[started_];
    for (const Variable& parameter : bucket.parameters) fill_missing_gradient(parameter);
    const CallLabel label("bucket", static_cast<int>(started_));
    bucket.work = group_->all_reduce(bucket.memory, ReduceOp::sum);
    ++started_;
  }
}

void DistributedDataParallel::finish() {
  for (Bucket& bucket : buckets_) bucket.unready = 0;
  start_ready_buckets();
  const auto start = Clock::now();
  const double work_before = group_->work_seconds();
  for (Bucket& bucket : buckets_) {
    bucket.work.wait();
    bucket.work = {};
  }
  wait_seconds_ += seconds_since(start);
  work_seconds_ += group_->work_seconds() - work_before;
}

}  // namespace lockstep
