#include <lockstep/parallel/bucket.hpp>

#include <algorithm>
#include <string>

#include <lockstep/base/error.hpp>
#include <lockstep/tensor/kernels/elementwise/elementwise.hpp>
#include <lockstep/tensor/runtime/caching_allocator.hpp>

namespace lockstep {

void expect_gradient_in(const Tensor& memory, const Variable& parameter, const char* wrapper) {
  const Tensor& gradient = parameter.record()->grad;
  if (gradient.storage().get() == memory.storage().get()) return;
  throw Error(std::string(wrapper) + ": the gradient of a parameter " + describe(parameter.data()) +
              " is no longer in the memory that is summed over the ranks. Convert a model "
              "(to(dtype), to(device)) and replace values (set_value) before " +
              wrapper + " gets it.");
}

bool holds_any(const Bucket& bucket) {
  return std::ranges::any_of(bucket.parameters,
                             [](const Variable& v) { return v.grad().defined(); });
}

void scale_gradients(const Bucket& bucket, double factor) {
  if (!bucket.wide.defined()) return scale(bucket.gradients, factor);
  const std::int64_t size = bucket.gradients.numel(), step = bucket.wide.numel();
  for (std::int64_t begin = 0; begin < size; begin += step) {
    const std::int64_t end = std::min(begin + step, size);
    const Tensor part = bucket.gradients.slice(begin, end),
                 wide = bucket.wide.slice(0, end - begin);
    convert(part, wide);
    scale(wide, factor);
    convert(wide, part);
  }
}

Tensor memory_to_reduce(ProcessGroup& group, const Shape& shape, DType dtype, Device device) {
  const MemoryLabel label("buffers of collectives");
  return device.type == DeviceType::host ? group.shared_buffer(shape, dtype)
                                         : Tensor::zeros(shape, dtype, device);
}

std::vector<Bucket> lay_out_in_buckets(std::span<const Variable> parameters,
                                       const BucketOptions& options, ProcessGroup& group) {
  std::vector<Tensor> data;
  for (const Variable& parameter : parameters) data.push_back(parameter.data());
  std::vector<Bucket> buckets;
  for (const BucketPlan& plan : plan_buckets(data, options)) {
    Bucket& bucket = buckets.emplace_back();
    const auto elements = static_cast<std::int64_t>(plan.bytes / size_of(plan.dtype));
    const auto count = static_cast<std::int64_t>(plan.slices.size()) + 1;
    const Shape flat{elements + count};
    const Device device = data[plan.slices.front().parameter].device();
    bucket.values = Tensor::zeros(flat, plan.dtype, device);
    bucket.gradients = memory_to_reduce(group, flat, plan.dtype, device);
    for (const Tensor* memory : {&bucket.values, &bucket.gradients}) {
      memory->storage()->mark_padded();
    }
    if (is_half(plan.dtype)) {
      constexpr std::int64_t most = 16384;
      bucket.wide = Tensor::empty({std::min(flat.numel(), most)}, DType::f32, device);
    }
    bucket.notes = bucket.gradients.slice(elements, elements + count);
    for (const BucketPlan::Slice& slice : plan.slices) {
      const Variable& variable = parameters[slice.parameter];
      const auto place_in = [&](const Tensor& memory) {
        return Tensor::over(memory.storage(), slice.offset_bytes, variable.shape(), plan.dtype);
      };
      variable.set_value_buffer(place_in(bucket.values));
      variable.set_grad_buffer(place_in(bucket.gradients));
      bucket.parameters.push_back(variable);
    }
  }
  return buckets;
}

}  // namespace lockstep
