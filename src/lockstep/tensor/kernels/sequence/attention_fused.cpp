#include <lockstep/tensor/kernels/sequence/attention_fused.hpp>

#include <algorithm>
#include <cstddef>
#include <initializer_list>

#include <lockstep/tensor/kernels/host_task.hpp>
#include <lockstep/tensor/kernels/sequence/attention_key_bias.hpp>
#include <lockstep/tensor/math/device_math.hpp>

namespace lockstep::detail {
namespace {

bool is_fusable(const AttentionPlan& plan) {
  const bool is_empty = plan.batch * plan.heads * plan.queries * plan.keys * plan.width == 0;
  return !is_empty && !plan.mask.defined() && (!plan.causal || plan.queries == plan.keys);
}

/// Undefined without a mask.
Tensor key_bias_of(const AttentionPlan& plan) {
  return plan.key_padding_mask.defined() ? key_bias(plan.key_padding_mask) : Tensor();
}

/// Of one 16-bit type, with log-sums in f32.
bool are_fusable(std::initializer_list<const Heads*> operands, const Tensor& log_sum) {
  const DType dtype = (*operands.begin())->tensor.dtype();
  return (dtype == DType::bf16 || dtype == DType::f16) && log_sum.dtype() == DType::f32 &&
         std::all_of(operands.begin(), operands.end(),
                     [&](const Heads* x) { return x->tensor.dtype() == dtype; });
}

/// One pass over samples [begin, begin + count) of the batch.
class Part {
 public:
  Part(const AttentionPlan& plan, math::AttentionPass pass, std::int64_t begin, std::int64_t count,
       const Tensor& log_sum)
      : begin_(begin), device_(log_sum.device()) {
    problem_.pass = pass;
    problem_.batch = count;
    problem_.heads = plan.heads;
    problem_.group_heads = plan.group_heads;
    problem_.queries = plan.queries;
    problem_.keys = plan.keys;
    problem_.width = plan.width;
    problem_.scale = plan.scale;
    problem_.causal = plan.causal && plan.queries > 1;
    at_.log_sum = static_cast<float*>(log_sum.kernel_data()) + begin * plan.heads * plan.queries;
    align(reinterpret_cast<std::uintptr_t>(at_.log_sum));
  }

  /// Adds an operand to the problem's strides, and returns its address.
  void* add(const Heads& x, math::Attention::Strides& strides) {
    constexpr std::size_t bytes = 2;
    problem_.dtype = x.tensor.dtype();
    strides = {x.batch, x.head, x.row};
    for (const std::int64_t stride : {x.batch, x.head, x.row}) {
      align(static_cast<std::uintptr_t>(stride) * bytes);
    }
    auto* const address = static_cast<std::byte*>(x.tensor.kernel_data()) +
                          static_cast<std::size_t>(x.offset + begin_ * x.batch) * bytes;
    align(reinterpret_cast<std::uintptr_t>(address));
    return address;
  }
  void add_key_bias(const Tensor& bias) {
    if (!bias.defined()) return;
    problem_.key_bias_row = bias.size(1);
    const auto* const address =
        static_cast<const float*>(bias.kernel_data()) + begin_ * bias.size(1);
    align(reinterpret_cast<std::uintptr_t>(address));
    at_.key_bias = address;
  }
  void add_forward(const Heads& q, const Heads& k, const Heads& v, const Heads& out) {
    at_.q = add(q, problem_.q);
    at_.k = add(k, problem_.k);
    at_.v = add(v, problem_.v);
    at_.out = add(out, problem_.out);
  }
  void add_backward(const Heads& grad_out, const AttentionGrad& grad_q, const AttentionGrad& grad_k,
                    const AttentionGrad& grad_v) {
    at_.grad_out = add(grad_out, problem_.grad_out);
    at_.grad_q = add(grad_q.heads, problem_.grad_q);
    at_.grad_k = add(grad_k.heads, problem_.grad_k);
    at_.grad_v = add(grad_v.heads, problem_.grad_v);
  }

  [[nodiscard]] bool run() {
    problem_.alignment = static_cast<int>(places_ & (~places_ + 1));
    return math::run(*math::device_math(device_), "attention", problem_, at_, device_);
  }

 private:
  void align(std::uintptr_t place) { places_ |= place; }

  std::int64_t begin_;
  Device device_;
  math::Attention problem_;
  math::AttentionAddresses at_;
  std::uintptr_t places_ = 16;
};

}  // namespace

std::int64_t samples_a_backward(const AttentionPlan& plan) {
  constexpr std::int64_t scores = std::int64_t{1} << 30U;
  const std::int64_t sample = std::max<std::int64_t>(plan.heads * plan.queries * plan.keys, 1);
  return std::clamp<std::int64_t>(scores / sample, 1, std::max<std::int64_t>(plan.batch, 1));
}

bool attention_forward_fused(const AttentionPlan& plan, const Heads& q, const Heads& k,
                             const Heads& v, const Heads& out, const Tensor& log_sum) {
  if (!is_fusable(plan) || !are_fusable({&q, &k, &v, &out}, log_sum)) return false;
  static_cast<void>(common_device("attention", {&q.tensor, &k.tensor, &v.tensor, &out.tensor,
                                                &log_sum, &plan.key_padding_mask}));
  const Tensor bias = key_bias_of(plan);
  Part all(plan, math::AttentionPass::forward, 0, plan.batch, log_sum);
  all.add_forward(q, k, v, out);
  all.add_key_bias(bias);
  if (!all.run()) return false;
  if (bias.defined()) clear_blind_queries(plan, out, log_sum);
  return true;
}

bool attention_backward_fused(const AttentionPlan& plan, const Heads& grad_out, const Heads& q,
                              const Heads& k, const Heads& v, const Heads& out,
                              const Tensor& log_sum, const AttentionGrad& grad_q,
                              const AttentionGrad& grad_k, const AttentionGrad& grad_v) {
  for (const AttentionGrad* grad : {&grad_q, &grad_k, &grad_v}) {
    if (!grad->heads.tensor.defined() || grad->accumulate) return false;
  }
  if (!is_fusable(plan) ||
      !are_fusable({&q, &k, &v, &out, &grad_out, &grad_q.heads, &grad_k.heads, &grad_v.heads},
                   log_sum)) {
    return false;
  }
  static_cast<void>(common_device(
      "attention",
      {&grad_out.tensor, &q.tensor, &k.tensor, &v.tensor, &out.tensor, &log_sum,
       &grad_q.heads.tensor, &grad_k.heads.tensor, &grad_v.heads.tensor, &plan.key_padding_mask}));
  const Tensor bias = key_bias_of(plan);
  const std::int64_t together = samples_a_backward(plan);
  for (std::int64_t begin = 0; begin < plan.batch; begin += together) {
    Part part(plan, math::AttentionPass::backward, begin, std::min(together, plan.batch - begin),
              log_sum);
    part.add_forward(q, k, v, out);
    part.add_backward(grad_out, grad_q, grad_k, grad_v);
    part.add_key_bias(bias);
    if (!part.run()) return false;
  }
  return true;
}

}  // namespace lockstep::detail
