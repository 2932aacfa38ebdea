#include <lockstep/parallel/context/ring_attention.hpp>

#include <cmath>
#include <cstring>
#include <string>
#include <utility>

#include <lockstep/autograd/differentiation.hpp>
#include <lockstep/autograd/flop_counter.hpp>
#include <lockstep/autograd/functional/shape.hpp>
#include <lockstep/autograd/node.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/comm/agreement.hpp>
#include <lockstep/comm/call_label.hpp>
#include <lockstep/parallel/context/gathered_attention.hpp>
#include <lockstep/parallel/context/ring_of_keys.hpp>
#include <lockstep/tensor/kernels/elementwise/copy.hpp>

namespace lockstep {
namespace {

using detail::output_heads;
using detail::query_heads;
using detail::RingPlan;

/// This rank's keys and values, flat: those of [B,T,(H + 2 G) D] side by side, or the keys and then
/// the values.
Tensor keys_and_values(const RingPlan& plan, const Tensor& qkv) {
  const std::int64_t embed = plan.heads * plan.width, both = 2 * plan.key_heads * plan.width;
  Tensor result = Tensor::empty({plan.batch, plan.queries, both}, qkv.dtype(), qkv.device());
  narrow_copy(qkv, 2, embed, false, result);
  return result.reshape({result.numel()});
}
Tensor keys_and_values(const Tensor& k, const Tensor& v) {
  Tensor result = Tensor::empty({2, k.numel()}, k.dtype(), k.device());
  result[0].copy_from(k.reshape({k.numel()}));
  result[1].copy_from(v.reshape({v.numel()}));
  return result.reshape({result.numel()});
}

/// Number `first` to `first` + `heads` of the heads side by side in x[B,T,...]: [B,heads,T,D].
Variable heads_apart(const Variable& x, std::int64_t first, std::int64_t heads,
                     std::int64_t width) {
  const Shape& s = x.shape();
  return transpose(reshape(narrow(x, 2, first * width, heads * width), {s[0], s[1], heads, width}),
                   1, 2);
}

class RingNode : public PooledNode<RingNode> {
 public:
  RingNode(RingPlan plan, Tensor key_padding_mask, Tensor output, Tensor log_sum)
      : plan_(std::move(plan)),
        key_padding_mask_(std::move(key_padding_mask)),
        output_(std::move(output)),
        log_sum_(std::move(log_sum)) {}

  void backward(const Tensor& grad_output) override {
    const CallLabel label("backward of ring attention");
    if (plan_.packed) {
      into_one(grad_output);
    } else {
      apart(grad_output);
    }
  }
  void differentiate(Differentiation& d) override {
    const CallLabel label("backward of ring attention, recorded");
    d.give_as([this](std::span<const Variable> inputs) {
      if (!plan_.packed) {
        return detail::gathered_attention(plan_, key_padding_mask_, inputs[0], inputs[1],
                                          inputs[2]);
      }
      const auto part = [&](std::int64_t first, std::int64_t heads) {
        return heads_apart(inputs[0], first, heads, plan_.width);
      };
      const Variable y = detail::gathered_attention(
          plan_, key_padding_mask_, part(0, plan_.heads), part(plan_.heads, plan_.key_heads),
          part(plan_.heads + plan_.key_heads, plan_.key_heads));
      return reshape(transpose(y, 1, 2), {plan_.batch, plan_.queries, plan_.heads * plan_.width});
    });
  }
  [[nodiscard]] const char* name() const noexcept override { return "ring_attention"; }

 private:
  [[nodiscard]] Tensor ring(const Tensor& grad_output, Tensor keys_values, const GradTarget& q,
                            bool wants_keys) {
    AttentionGrad grad_q;
    if (q.wanted) grad_q = {query_heads(plan_, q.tensor), q.accumulate};
    keys_values = detail::as_they_travel(plan_, keys_values, key_padding_mask_);
    return detail::ring_backward(plan_, output_heads(plan_, grad_output),
                                 query_heads(plan_, input(0).data()), std::move(keys_values),
                                 output_heads(plan_, output_), log_sum_, grad_q, wants_keys);
  }

  void into_one(const Tensor& grad_output) {
    const GradTarget target = grad_target(0);
    if (!target.wanted) return;
    const Tensor grad_keys =
        ring(grad_output, keys_and_values(plan_, input(0).data()), target, true);
    const std::int64_t both = 2 * plan_.key_heads * plan_.width;
    narrow_assign(grad_keys.reshape({plan_.batch, plan_.queries, both}), 2,
                  plan_.heads * plan_.width, target.accumulate, target.tensor);
  }

  void apart(const Tensor& grad_output) {
    const Tensor &k = input(1).data(), &v = input(2).data();
    const bool wants_keys = input(1).requires_grad() || input(2).requires_grad();
    const Tensor grad_keys = ring(grad_output, keys_and_values(k, v), grad_target(0), wants_keys);
    if (!wants_keys) return;
    const std::int64_t half = k.numel();
    if (input(1).requires_grad()) pass_grad(1, grad_keys.slice(0, half).reshape(k.shape()));
    if (input(2).requires_grad()) {
      pass_grad(2, grad_keys.slice(half, 2 * half).reshape(v.shape()));
    }
  }

  RingPlan plan_;
  Tensor key_padding_mask_, output_, log_sum_;
};

/// Facts that all ranks exchange before a ring attention.
struct Facts {
  std::int64_t batch = 0, heads = 0, key_heads = 0, width = 0, queries = 0, keys = 0;
  std::int64_t dtype = 0, key_dtype = 0, causal = 0, order = 0, pads = 0;
  double scale = 0.0;
  std::int64_t failed = 0;

  /// Equal on all ranks: all but lengths.
  [[nodiscard]] bool fits(const Facts& other) const {
    return batch == other.batch && heads == other.heads && key_heads == other.key_heads &&
           width == other.width && dtype == other.dtype && key_dtype == other.key_dtype &&
           causal == other.causal && order == other.order && pads == other.pads &&
           scale == other.scale;
  }
  [[nodiscard]] std::string sentence() const {
    return "batch " + std::to_string(batch) + ", " + std::to_string(heads) + " heads, " +
           std::to_string(key_heads) + " key heads of width " + std::to_string(width) + ", " +
           std::string(name_of(static_cast<DType>(dtype))) +
           (key_dtype == dtype
                ? ""
                : " by keys of " + std::string(name_of(static_cast<DType>(key_dtype)))) +
           ", " + (causal ? "" : "not ") + "causal, " + (order == 0 ? "contiguous" : "zigzag") +
           (pads ? ", with" : ", without") + " a key_padding_mask, scale " + std::to_string(scale);
  }
};

/// Checks this rank's operands by `facts_of`, which throws, and all ranks' against each other.
/// Throws the same error on every rank.
template <class FactsOf>
RingPlan agreed_plan(const char* call, const GroupPtr& group, bool packed,
                     const FactsOf& facts_of) {
  if (!group) throw InputError(std::string(call) + " needs a group, not a null pointer.");
  const CallLabel label("ring attention");
  const int size = group->size();
  Facts mine{};
  const auto failure = failure_of([&] { mine = facts_of(); });
  mine.failed = failure ? 1 : 0;
  constexpr std::int64_t numbers = sizeof(Facts) / sizeof(std::int64_t);
  const Tensor all = Tensor::empty({size, numbers}, DType::i64);
  const Tensor here = Tensor::empty({numbers}, DType::i64);
  std::memcpy(here.data(), &mine, sizeof mine);
  group->all_gather(here, all).wait();
  const auto facts_of_rank = [&](int r) {
    Facts facts;
    std::memcpy(&facts, all[r].data(), sizeof facts);
    return facts;
  };
  RingPlan plan{.packed = packed,
                .batch = mine.batch,
                .heads = mine.heads,
                .key_heads = mine.key_heads,
                .queries = mine.queries,
                .width = mine.width,
                .scale = mine.scale,
                .causal = mine.causal != 0,
                .order = static_cast<SequenceOrder>(mine.order),
                .key_dtype = static_cast<DType>(mine.key_dtype),
                .pads = mine.pads != 0,
                .group = group,
                .keys = Tensor::empty({size}, DType::i64)};
  bool failed = false;
  for (int r = 0; r < size; ++r) {
    const Facts facts = facts_of_rank(r);
    failed = failed || facts.failed != 0;
    static_cast<std::int64_t*>(plan.keys.data())[r] = facts.keys;
  }
  if (failed) {
    agree(*group, [&] {
      if (failure) mine = facts_of();
    });
  }
  const Facts first = facts_of_rank(0);
  for (int r = 1; r < size; ++r) {
    const Facts other = facts_of_rank(r);
    if (other.fits(first)) continue;
    throw Agreed<ShapeError>(std::string(call) + ": rank " + std::to_string(r) + " of " +
                             std::to_string(size) + " has " + other.sentence() + ", but rank 0 " +
                             first.sentence() +
                             ". Only the length of a slice may differ from rank to rank.");
  }
  return plan;
}

/// The type in which k and v travel: 16 bits where no bit is lost by it.
DType key_dtype(const Operand& k, const Operand& v) {
  const DType dtype = k.data().dtype(), given = k.given().data().dtype();
  if (dtype != DType::f32) return dtype;
  if (product_precision() == Precision::bf16) return DType::bf16;
  if (product_precision() == Precision::fp16) return DType::f16;
  return given == v.given().data().dtype() ? given : dtype;
}

/// The facts that the options give, and those of the keys' mask. Throws ShapeError.
void apply_options(const char* call, const RingAttentionOptions& options, const Operand& k,
                   const Operand& v, Facts& facts) {
  facts.dtype = static_cast<std::int64_t>(k.data().dtype());
  facts.key_dtype = static_cast<std::int64_t>(key_dtype(k, v));
  facts.causal = options.causal ? 1 : 0;
  facts.order = static_cast<std::int64_t>(options.order);
  facts.scale = options.scale.value_or(1.0 / std::sqrt(static_cast<double>(facts.width)));
  const Tensor& mask = options.key_padding_mask;
  facts.pads = mask.defined() ? 1 : 0;
  const Shape shape{facts.batch, facts.keys};
  if (!mask.defined() || (mask.dtype() == DType::boolean && mask.shape() == shape &&
                          mask.device() == k.data().device())) {
    return;
  }
  throw ShapeError(std::string(call) + " to this rank's " + std::to_string(facts.keys) +
                   " keys takes a key_padding_mask bool" + to_string(shape) + " on " +
                   to_string(k.data().device()) + ", not " + describe(mask) + ".");
}

/// Runs forward and records it.
Variable attend(RingPlan plan, const Shape& shape, Tensor keys_values,
                const Tensor& key_padding_mask, const Tensor& q, const NodeInputs& inputs) {
  const CallLabel label("ring attention");
  Tensor out = Tensor::empty(shape, q.dtype(), q.device());
  Tensor log_sum = Tensor::empty({plan.batch * plan.heads * plan.queries}, q.dtype(), q.device());
  keys_values = detail::as_they_travel(plan, keys_values, key_padding_mask);
  detail::ring_forward(plan, query_heads(plan, q), std::move(keys_values), output_heads(plan, out),
                       log_sum);
  std::int64_t keys = 0;
  for (int r = 0; r < plan.group->size(); ++r) keys += plan.keys_of(r);
  // Two products of T x S x D a head, without the savings of a causal mask.
  count_flops(4 * plan.batch * plan.heads * plan.queries * keys * plan.width);
  const Tensor output = out;
  return record<RingNode>(std::move(out), inputs, std::move(plan), key_padding_mask, output,
                          std::move(log_sum));
}

}  // namespace

Variable ring_attention(const Operand& q, const Operand& k, const Operand& v, const GroupPtr& group,
                        const RingAttentionOptions& options) {
  const Tensor &query = q.data(), &key = k.data(), &value = v.data();
  RingPlan plan = agreed_plan("ring_attention", group, false, [&] {
    const bool fits =
        query.dims() == 4 && key.dims() == 4 && key.shape() == value.shape() &&
        query.size(0) == key.size(0) && key.size(1) >= 1 && query.size(1) % key.size(1) == 0 &&
        query.size(1) >= 1 && query.size(3) == key.size(3) && query.dtype() == key.dtype() &&
        query.dtype() == value.dtype() && (!options.causal || query.size(2) == key.size(2));
    if (!fits) {
      throw ShapeError("ring_attention of q " + describe(query) + ", k " + describe(key) +
                       " and v " + describe(value) +
                       ": it takes q [B, H, T, D], k and v [B, G, S, D] of one dtype, with G a "
                       "divisor of H, and S = T if causal.");
    }
    Facts facts{.batch = query.size(0),
                .heads = query.size(1),
                .key_heads = key.size(1),
                .width = query.size(3),
                .queries = query.size(2),
                .keys = key.size(2)};
    apply_options("ring_attention", options, k, v, facts);
    return facts;
  });
  return attend(std::move(plan), query.shape(), keys_and_values(key, value),
                options.key_padding_mask, query, {&q, &k, &v});
}

Variable ring_self_attention(const Operand& qkv, std::int64_t heads, const GroupPtr& group,
                             const RingAttentionOptions& options, std::int64_t key_heads) {
  const Tensor& x = qkv.data();
  if (key_heads == 0) key_heads = heads;
  RingPlan plan = agreed_plan("ring_self_attention", group, true, [&] {
    const bool fits = heads >= 1 && key_heads >= 1 && heads % key_heads == 0 && x.dims() == 3 &&
                      x.size(2) % (heads + 2 * key_heads) == 0;
    if (!fits) {
      throw ShapeError("ring_self_attention of " + describe(x) + " with " + std::to_string(heads) +
                       " heads and " + std::to_string(key_heads) +
                       " key heads: it takes [B, T, (heads + 2 key_heads) D], with key_heads a "
                       "divisor of heads.");
    }
    Facts facts{.batch = x.size(0),
                .heads = heads,
                .key_heads = key_heads,
                .width = x.size(2) / (heads + 2 * key_heads),
                .queries = x.size(1),
                .keys = x.size(1)};
    apply_options("ring_self_attention", options, qkv, qkv, facts);
    return facts;
  });
  const Shape shape{plan.batch, plan.queries, plan.heads * plan.width};
  Tensor keys_values = keys_and_values(plan, x);
  return attend(std::move(plan), shape, std::move(keys_values), options.key_padding_mask, x,
                {&qkv});
}

}  // namespace lockstep
