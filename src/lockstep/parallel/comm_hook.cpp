#include <lockstep/parallel/comm_hook.hpp>

#include <lockstep/base/error.hpp>
#include <lockstep/parallel/distributed_data_parallel.hpp>
#include <lockstep/tensor/kernels/elementwise.hpp>

namespace lockstep {

void CommHook::prepare(ProcessGroup& /*group*/, std::span<const Bucket> /*buckets*/) {}

void CommHook::finish(const Bucket& /*bucket*/, std::size_t /*index*/) {}

void CommHook::set_step(std::int64_t /*step*/) {}

Work AllReduceHook::start(ProcessGroup& group, const Bucket& bucket, std::size_t /*index*/) {
  return group.all_reduce(bucket.gradients, ReduceOp::sum);
}

CompressHook::CompressHook(DType wire) : wire_(wire) {
  if (wire == DType::f16 || wire == DType::bf16) return;
  throw InputError("gradients are compressed to f16 or bf16, not to " + std::string(name_of(wire)));
}

std::string CompressHook::name() const {
  return wire_ == DType::f16 ? "fp16_compress" : "bf16_compress";
}

void CompressHook::prepare(ProcessGroup& group, std::span<const Bucket> buckets) {
  for (const Bucket& bucket : buckets) {
    const Tensor& whole = bucket.gradients;
    Tensor& half = halves_.emplace_back();
    if (size_of(whole.dtype()) <= size_of(wire_)) continue;
    half = memory_to_reduce(group, whole.shape(), wire_, whole.device());
  }
}

Work CompressHook::start(ProcessGroup& group, const Bucket& bucket, std::size_t index) {
  const Tensor& half = halves_[index];
  if (!half.defined()) return group.all_reduce(bucket.gradients, ReduceOp::sum);
  convert(bucket.gradients, half);
  return group.all_reduce(half, ReduceOp::sum);
}

void CompressHook::finish(const Bucket& bucket, std::size_t index) {
  if (halves_[index].defined()) convert(halves_[index], bucket.gradients);
}

std::unique_ptr<CommHook> make_comm_hook(const DdpOptions& options) {
  switch (options.comm_hook) {
    case CommHookKind::fp16_compress:
      return std::make_unique<CompressHook>(DType::f16);
    case CommHookKind::bf16_compress:
      return std::make_unique<CompressHook>(DType::bf16);
    case CommHookKind::post_local_sgd:
      return std::make_unique<PostLocalSgdHook>(nullptr, options.local_sgd.start_step);
    case CommHookKind::all_reduce:
      break;
  }
  return std::make_unique<AllReduceHook>();
}

}  // namespace lockstep
