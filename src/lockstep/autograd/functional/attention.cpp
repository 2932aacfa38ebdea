#include <lockstep/autograd/functional/attention.hpp>

#include <array>
#include <cmath>
#include <string>

#include <lockstep/autograd/differentiation.hpp>
#include <lockstep/autograd/flop_counter.hpp>
#include <lockstep/autograd/functional/activation.hpp>
#include <lockstep/autograd/functional/arithmetic.hpp>
#include <lockstep/autograd/functional/expand.hpp>
#include <lockstep/autograd/functional/matmul.hpp>
#include <lockstep/autograd/functional/reduction.hpp>
#include <lockstep/autograd/functional/rounded_once.hpp>
#include <lockstep/autograd/functional/shape.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/tensor/kernels/sequence/attention.hpp>
#include <lockstep/tensor/sum_dtype.hpp>

namespace lockstep {
namespace {

/// [B,H,T,D], or [B,T,E] with the heads side by side.
Heads operand(const Tensor& t, const AttentionPlan& plan) {
  return t.dims() == 4 ? heads_of(t) : heads_in(t, plan.heads, 0, 1);
}

/// What backward needs of forward, beside the operands.
struct Saved {
  Tensor log_sum;  ///< [B,H,T]
  Heads out;       ///< undefined unless a device's library computed it
};

/// Computes attention into `out`.
Saved attend_into(const Heads& out, const AttentionPlan& plan, const Heads& q, const Heads& k,
                  const Heads& v) {
  Saved saved{.log_sum = Tensor::empty({plan.batch, plan.heads, plan.queries},
                                       sum_dtype(out.tensor.dtype()), out.tensor.device()),
              .out = {}};
  if (attention_forward(plan, q, k, v, out, saved.log_sum)) saved.out = out;
  return saved;
}

/// 1 where a query sees a key, else 0: [B,1,T,S], with the dtype and device of `like`. Waits for
/// the device if there is a mask on it.
Tensor visible_keys(const AttentionPlan& plan, const Tensor& like) {
  const auto flags = [](const Tensor& t) {
    return t.defined() ? static_cast<const bool*>(t.data()) : nullptr;
  };
  const Tensor mask = plan.mask.to(Device{}), padding = plan.key_padding_mask.to(Device{});
  const bool *const seen = flags(mask), *const hidden = flags(padding);
  const Tensor visible = Tensor::empty({plan.batch, 1, plan.queries, plan.keys}, DType::f32);
  auto* at = static_cast<float*>(visible.data());
  for (std::int64_t b = 0; b < plan.batch; ++b) {
    for (std::int64_t t = 0; t < plan.queries; ++t) {
      for (std::int64_t s = 0; s < plan.keys; ++s) {
        *at++ = (!plan.causal || s <= t) && (!seen || seen[t * plan.keys + s]) &&
                        (!hidden || !hidden[b * plan.keys + s])
                    ? 1.0F
                    : 0.0F;
      }
    }
  }
  return visible.to(like.dtype()).to(like.device());
}

/// softmax(scale q k^T + mask) of q and k [B,H,T,D].
Variable attention_weights(const AttentionPlan& plan, const Operand& q, const Operand& k) {
  return detail::rounded_once(q, k, [&](const Variable& query, const Variable& key) {
    const Variable visible(visible_keys(plan, query.data()));
    const Variable scores = matmul(query, transpose(key, 2, 3)) * plan.scale;
    // Finite and far below any score; the last factor handles a query that sees nothing.
    return softmax(scores * visible + (visible - 1.0) * 1e30) * visible;
  });
}

/// attention_forward of q, k and v [B,H,T,D] by simpler operations, with all probabilities in
/// memory.
Variable attend_by_parts(const AttentionPlan& plan, const Operand& q, const Operand& k,
                         const Operand& v) {
  return detail::rounded_once(
      q, k, v, [&](const Variable& query, const Variable& key, const Variable& value) {
        return matmul(attention_weights(plan, query, key), value);
      });
}

/// [B,T,E] as [B,H,T,D].
Variable split_heads(const Variable& x, std::int64_t heads) {
  const Shape& s = x.shape();
  return transpose(reshape(x, {s[0], s[1], heads, s[2] / heads}), 1, 2);
}
Variable join_heads(const Variable& x) {
  const Shape& s = x.shape();
  return reshape(transpose(x, 1, 2), {s[0], s[2], s[1] * s[3]});
}

/// Each head of x[B,G,S,D] for its query heads: [B,G group_heads,S,D].
Variable repeat_heads(const Variable& x, std::int64_t group_heads) {
  if (group_heads == 1) return x;
  const Shape& s = x.shape();
  return reshape(
      expand(reshape(x, {s[0], s[1], 1, s[2], s[3]}), {s[0], s[1], group_heads, s[2], s[3]}),
      {s[0], s[1] * group_heads, s[2], s[3]});
}

class AttentionNode : public PooledNode<AttentionNode> {
 public:
  static constexpr bool reads_outputs = false;

  AttentionNode(AttentionPlan plan, Saved saved)
      : plan_(std::move(plan)), saved_(std::move(saved)) {}

  void backward(const Tensor& grad_output) override {
    const auto same = [&](int i, int j) { return input(i).record() == input(j).record(); };
    // Operands that are one variable share a gradient, so each adds to that of the one before.
    const bool one_by_one = same(0, 1) || same(0, 2) || same(1, 2);
    std::array<AttentionGrad, 3> grads;
    for (int i = 0; i < 3; ++i) {
      const GradTarget target = grad_target(i);
      if (target.wanted) {
        grads[static_cast<std::size_t>(i)] = {operand(target.tensor, plan_), target.accumulate};
      }
      if (!one_by_one && i < 2) continue;
      const auto value = [&](int k) { return operand(input(k).data(), plan_); };
      attention_backward(plan_, operand(grad_output, plan_), value(0), value(1), value(2),
                         saved_.log_sum, grads[0], grads[1], grads[2], {}, saved_.out);
      grads = {};
    }
  }
  void differentiate(Differentiation& d) override {
    d.give_as([this](std::span<const Variable> inputs) {
      const bool apart = inputs[0].shape().dims() == 4;
      const auto heads = [&](const Variable& x) { return apart ? x : split_heads(x, plan_.heads); };
      const auto of_keys = [&](const Variable& x) {
        return repeat_heads(heads(x), plan_.group_heads);
      };
      const Variable y =
          attend_by_parts(plan_, heads(inputs[0]), of_keys(inputs[1]), of_keys(inputs[2]));
      return apart ? y : join_heads(y);
    });
  }
  [[nodiscard]] const char* name() const noexcept override {
    return "scaled_dot_product_attention";
  }

 private:
  AttentionPlan plan_;
  Saved saved_;
};

class SelfAttentionNode : public PooledNode<SelfAttentionNode> {
 public:
  static constexpr bool reads_outputs = false;

  SelfAttentionNode(AttentionPlan plan, Saved saved)
      : plan_(std::move(plan)), saved_(std::move(saved)) {}

  void backward(const Tensor& grad_output) override {
    const auto target = grad_target(0);
    if (!target.wanted) return;
    const auto part = [&](const Tensor& t, int i) { return heads_in(t, plan_.heads, i, 3); };
    const auto grad = [&](int i) {
      return AttentionGrad{part(target.tensor, i), target.accumulate};
    };
    const Tensor& qkv = input(0).data();
    attention_backward(plan_, heads_in(grad_output, plan_.heads, 0, 1), part(qkv, 0), part(qkv, 1),
                       part(qkv, 2), saved_.log_sum, grad(0), grad(1), grad(2), {}, saved_.out);
  }
  void differentiate(Differentiation& d) override {
    d.give_as([this](std::span<const Variable> inputs) {
      const std::int64_t embed = inputs[0].shape()[2] / 3;
      const auto part = [&](std::int64_t i) {
        return split_heads(narrow(inputs[0], 2, i * embed, embed), plan_.heads);
      };
      return join_heads(attend_by_parts(plan_, part(0), part(1), part(2)));
    });
  }
  [[nodiscard]] const char* name() const noexcept override { return "self_attention"; }

 private:
  AttentionPlan plan_;
  Saved saved_;
};

/// Counts two products of T x S x D a head, without the savings of a causal mask.
void count(const AttentionPlan& plan) {
  count_flops(4 * plan.batch * plan.heads * plan.queries * plan.keys * plan.width);
}

/// Completes a plan from the options; its sizes are already set.
void apply_options(const AttentionOptions& options, const Tensor& q, AttentionPlan& plan) {
  plan.scale = options.scale.value_or(1.0 / std::sqrt(static_cast<double>(plan.width)));
  plan.causal = options.causal;
  plan.mask = options.mask;
  plan.key_padding_mask = options.key_padding_mask;
  const auto expect = [&](const char* what, const Tensor& mask, const Shape& shape) {
    if (!mask.defined() ||
        (mask.dtype() == DType::boolean && mask.shape() == shape && mask.device() == q.device())) {
      return;
    }
    throw ShapeError("attention from " + describe(q) + " to " + std::to_string(plan.keys) +
                     " keys takes a bool " + what + " " + to_string(shape) + ", not " +
                     describe(mask));
  };
  expect("mask", plan.mask, {plan.queries, plan.keys});
  expect("key_padding_mask", plan.key_padding_mask, {plan.batch, plan.keys});
}

Variable attend(const Variable& q, const Variable& k, const Variable& v, AttentionPlan plan,
                const AttentionOptions& options) {
  const Tensor& query = q.data();
  apply_options(options, query, plan);
  Tensor out = Tensor::empty(query.shape(), query.dtype(), query.device());
  Saved saved = attend_into(operand(out, plan), plan, operand(query, plan), operand(k.data(), plan),
                            operand(v.data(), plan));
  count(plan);
  return record<AttentionNode>(std::move(out), {&q, &k, &v}, std::move(plan), std::move(saved));
}

/// Whether that many heads of keys serve `heads` query heads.
bool is_divisor(std::int64_t key_heads, std::int64_t heads) {
  return key_heads == heads || (key_heads > 0 && heads > 0 && heads % key_heads == 0);
}

Variable dot_product_attention(const Variable& q, const Variable& k, const Variable& v,
                               const AttentionOptions& options) {
  const Tensor &query = q.data(), &key = k.data(), &value = v.data();
  const bool fits = query.dims() == 4 && key.dims() == 4 && key.shape() == value.shape() &&
                    query.size(0) == key.size(0) && is_divisor(key.size(1), query.size(1)) &&
                    query.size(3) == key.size(3) && query.dtype() == key.dtype() &&
                    query.dtype() == value.dtype();
  if (!fits) {
    throw ShapeError("scaled_dot_product_attention of q " + describe(query) + ", k " +
                     describe(key) + " and v " + describe(value) +
                     ": it takes q [B, H, T, D], k and v [B, H, S, D] of one dtype, or fewer heads "
                     "of k and v, a divisor of H");
  }
  return attend(q, k, v,
                {.batch = query.size(0),
                 .heads = query.size(1),
                 .queries = query.size(2),
                 .keys = key.size(2),
                 .width = query.size(3),
                 .group_heads = key.size(1) == 0 ? 1 : query.size(1) / key.size(1)},
                options);
}

/// The sizes of multi_head_attention's operands. Throws ShapeError if they do not fit together.
AttentionPlan multi_head_plan(const Variable& q, const Variable& k, const Variable& v,
                              std::int64_t heads) {
  const Tensor &query = q.data(), &key = k.data(), &value = v.data();
  const bool fits = heads >= 1 && query.dims() == 3 && key.dims() == 3 &&
                    key.shape() == value.shape() && query.size(0) == key.size(0) &&
                    query.size(2) == key.size(2) && query.size(2) % heads == 0 &&
                    query.dtype() == key.dtype() && query.dtype() == value.dtype();
  if (!fits) {
    throw ShapeError("multi_head_attention of q " + describe(query) + ", k " + describe(key) +
                     " and v " + describe(value) + " with " + std::to_string(heads) +
                     " heads: it takes q [B, T, E], k and v [B, S, E] of one dtype, with E "
                     "divisible by the heads");
  }
  return {.batch = query.size(0),
          .heads = heads,
          .queries = query.size(1),
          .keys = key.size(1),
          .width = query.size(2) / heads};
}

}  // namespace

Variable scaled_dot_product_attention(const Variable& q, const Variable& k, const Variable& v,
                                      const AttentionOptions& options) {
  return natively(
      [&](const Variable& query, const Variable& key, const Variable& value) {
        return dot_product_attention(query, key, value, options);
      },
      autocast_operand(q), autocast_operand(k), autocast_operand(v));
}

Variable multi_head_attention(const Variable& q, const Variable& k, const Variable& v,
                              std::int64_t heads, const AttentionOptions& options) {
  return natively(
      [&](const Variable& query, const Variable& key, const Variable& value) {
        return attend(query, key, value, multi_head_plan(query, key, value, heads), options);
      },
      autocast_operand(q), autocast_operand(k), autocast_operand(v));
}

AttentionResult multi_head_attention_with_weights(const Operand& q, const Operand& k,
                                                  const Operand& v, std::int64_t heads,
                                                  const AttentionOptions& options,
                                                  bool average_attn_weights) {
  AttentionPlan plan = multi_head_plan(q, k, v, heads);
  apply_options(options, q.data(), plan);
  const Variable weights = attention_weights(plan, split_heads(q, heads), split_heads(k, heads));
  return {join_heads(matmul(weights, split_heads(v, heads))),
          average_attn_weights ? mean(weights, {1}) : weights};
}

namespace {

Variable attention_of_thirds(const Variable& qkv, std::int64_t heads,
                             const AttentionOptions& options) {
  const Tensor& x = qkv.data();
  if (heads < 1 || x.dims() != 3 || x.size(2) % (3 * heads) != 0) {
    throw ShapeError("self_attention of " + describe(x) + " with " + std::to_string(heads) +
                     " heads: it takes [B, T, 3 E] with E divisible by the heads");
  }
  const std::int64_t embed = x.size(2) / 3;
  AttentionPlan plan{.batch = x.size(0),
                     .heads = heads,
                     .queries = x.size(1),
                     .keys = x.size(1),
                     .width = embed / heads};
  apply_options(options, x, plan);
  Tensor out = Tensor::empty({plan.batch, plan.queries, embed}, x.dtype(), x.device());
  Saved saved = attend_into(heads_in(out, heads, 0, 1), plan, heads_in(x, heads, 0, 3),
                            heads_in(x, heads, 1, 3), heads_in(x, heads, 2, 3));
  count(plan);
  return record<SelfAttentionNode>(std::move(out), {&qkv}, std::move(plan), std::move(saved));
}

}  // namespace

Variable self_attention(const Variable& qkv, std::int64_t heads, const AttentionOptions& options) {
  return natively([&](const Variable& x) { return attention_of_thirds(x, heads, options); },
                  autocast_operand(qkv));
}

}  // namespace lockstep
