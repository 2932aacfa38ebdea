#include <lockstep/parallel/comm_hook.hpp>

#include <lockstep/base/error.hpp>
#include <lockstep/tensor/kernels/elementwise/elementwise.hpp>

namespace lockstep {

void CommHook::prepare(ProcessGroup& /*group*/, std::span<const Bucket> /*buckets*/) {}

Work CommHook::next_round(ProcessGroup& /*group*/, const Bucket& /*bucket*/, std::size_t /*index*/,
                          int /*round*/) {
  return {};
}

std::int64_t CommHook::bytes_sent(const Bucket& bucket, std::size_t /*index*/) const {
  return static_cast<std::int64_t>(bucket.gradients.bytes());
}

void CommHook::finish(const Bucket& /*bucket*/, std::size_t /*index*/) {}

StateDict CommHook::state_dict(std::span<const nn::NamedParameter> /*trained*/) const { return {}; }

std::string CommHook::load_state_dict(std::span<const nn::NamedParameter> /*trained*/,
                                      const StateDict& state) const {
  if (state.size() == 0) return {};
  return "the state of another communication hook is left out: the deck now says " + name() + ".";
}

std::pair<std::int64_t, std::int64_t> rows_to_take_over(std::int64_t then, int rank, int now) {
  return {then * rank / now, then * (rank + 1) / now};
}

Work AllReduceHook::start(ProcessGroup& group, const Bucket& bucket, std::size_t /*index*/) {
  const bool is_sum = group.size() == 1 && bucket.gradients.device() != Device{};
  if (is_sum) return {};  // a device's would go to the host and back
  return group.all_reduce(bucket.gradients, ReduceOp::sum);
}

CompressHook::CompressHook(DType wire) : wire_(wire) {
  if (is_half(wire)) return;
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

std::int64_t CompressHook::bytes_sent(const Bucket& bucket, std::size_t index) const {
  const Tensor& half = halves_[index];
  return static_cast<std::int64_t>((half.defined() ? half : bucket.gradients).bytes());
}

void CompressHook::finish(const Bucket& bucket, std::size_t index) {
  if (halves_[index].defined()) convert(halves_[index], bucket.gradients);
}

}  // namespace lockstep
