// The formulas are those of attention.cpp.
#include <lockstep/tensor/kernels/sequence/attention_products.hpp>

#include <algorithm>
#include <limits>

#include <lockstep/base/error.hpp>
#include <lockstep/tensor/dispatch.hpp>
#include <lockstep/tensor/kernels/elementwise/math_functions.hpp>
#include <lockstep/tensor/kernels/for_each.hpp>
#include <lockstep/tensor/kernels/host_task.hpp>
#include <lockstep/tensor/math/product.hpp>
#include <lockstep/tensor/precision.hpp>

namespace lockstep::detail {
namespace {

/// Samples [begin, begin + count) of the batch.
struct Part {
  std::int64_t begin, count;
};

/// The type of the products' operands: that of q, or of this thread's precision.
DType operands_with(const Tensor& q) {
  if (q.dtype() != DType::f32) return q.dtype();
  switch (product_precision()) {
    case Precision::bf16:
      return DType::bf16;
    case Precision::fp16:
      return DType::f16;
    case Precision::f32:
      break;
  }
  return DType::f32;
}

Heads converted(const Heads& heads, DType dtype) {
  Heads result = heads;
  result.tensor = heads.tensor.to(dtype);
  return result;
}

/// q, k and v as operands. If they are parts of one tensor, it is converted once.
struct Operands {
  DType dtype;
  Heads q, k, v;

  Operands(const Heads& query, const Heads& key, const Heads& value)
      : dtype(operands_with(query.tensor)), q(converted(query, dtype)), k(key), v(value) {
    k.tensor = same(key, query) ? q.tensor : key.tensor.to(dtype);
    v.tensor = same(value, query) ? q.tensor : same(value, key) ? k.tensor : value.tensor.to(dtype);
  }

 private:
  static bool same(const Heads& a, const Heads& b) {
    return a.tensor.kernel_data() == b.tensor.kernel_data() && a.tensor.shape() == b.tensor.shape();
  }
};

/// A group's query heads as one head with the queries of all of them: their rows follow one
/// another.
struct Grouped {
  std::int64_t group_heads, heads, queries, keys, queries_of_one;

  explicit Grouped(const AttentionPlan& plan)
      : group_heads(plan.group_heads),
        heads(plan.heads / plan.group_heads),
        queries(plan.queries * plan.group_heads),
        keys(plan.keys),
        queries_of_one(plan.queries) {}
  [[nodiscard]] Heads operator()(const Heads& of_queries) const {
    LOCKSTEP_ASSERT(group_heads == 1 || !of_queries.tensor.defined() ||
                    of_queries.head == queries_of_one * of_queries.row);
    Heads result = of_queries;
    result.head *= group_heads;
    return result;
  }
  /// Rows of scores [count, heads, queries, keys] as heads.
  [[nodiscard]] Heads scores(const Tensor& t) const {
    const std::int64_t head = queries * keys;
    return {.tensor = t, .offset = 0, .batch = heads * head, .head = head, .row = keys};
  }
};

/// The same heads, starting with this sample.
Heads from(const Heads& heads, std::int64_t sample) {
  Heads result = heads;
  result.offset += sample * heads.batch;
  return result;
}

/// c[m,n] (+)= a[m,k] b[k,n] for every head of `count` samples. One call multiplies either all
/// heads of a sample or one head of all samples, whichever is more: their strides are arbitrary.
void multiply(std::int64_t heads_of_each, std::int64_t count, math::ProductSize size,
              const Heads& a, bool a_transposed, const Heads& b, bool b_transposed,
              const Heads& c) {
  const bool stacks_heads = heads_of_each >= count;
  size.count = stacks_heads ? heads_of_each : count;
  const auto stack = [&](const Heads& heads, bool transposed, std::int64_t i) {
    return math::Matrices{heads.tensor, heads.row, transposed,
                          heads.offset + i * (stacks_heads ? heads.batch : heads.head),
                          stacks_heads ? heads.head : heads.batch};
  };
  const std::int64_t calls = stacks_heads ? count : heads_of_each;
  for (std::int64_t i = 0; i < calls; ++i) {
    math::product("attention", size, stack(a, a_transposed, i), stack(b, b_transposed, i),
                  stack(c, false, i));
  }
}

/// The ingredients of a row of scores, without the plan's tensors.
template <class T>
struct VisibleScores {
  std::int64_t heads, queries, keys, begin;
  T scale;
  bool causal;
  const bool *mask, *hidden;

  VisibleScores(const AttentionPlan& plan, std::int64_t begin_of_part)
      : heads(plan.heads),
        queries(plan.queries),
        keys(plan.keys),
        begin(begin_of_part),
        scale(static_cast<T>(plan.scale)),
        causal(plan.causal),
        mask(static_cast<const bool*>(plan.mask.kernel_data())),
        hidden(static_cast<const bool*>(plan.key_padding_mask.kernel_data())) {}

  /// The score of row r, one of (sample, head, query), and key c; -inf for a hidden key.
  KOKKOS_FUNCTION T score(T product, std::int64_t r, std::int64_t c) const {
    const std::int64_t query = r % queries, sample = begin + r / (queries * heads);
    const bool seen = (!causal || c <= query) && (mask == nullptr || mask[query * keys + c]) &&
                      (hidden == nullptr || !hidden[sample * keys + c]);
    return seen ? scale * product : -std::numeric_limits<T>::infinity();
  }
};

/// Turns rows of q k^T into probabilities, and writes the logarithms of their sums.
template <class T, class Space>
void softmax_kernel(const Space& space, const VisibleScores<T>& visible, const Tensor& scores,
                    const Tensor& log_sum) {
  const auto p = flat_view<Space, T>(scores);
  const auto sums = flat_view<Space, T>(log_sum);
  const std::int64_t keys = visible.keys, rows = log_sum.numel();
  for_each_row(
      "lockstep::attention_softmax", space, rows, keys,
      KOKKOS_LAMBDA(std::int64_t r, const Lanes<Space>& lanes) {
        constexpr T infinity = std::numeric_limits<T>::infinity();
        const std::int64_t begin = r * keys;
        lanes.each([&](std::int64_t c) { p(begin + c) = visible.score(p(begin + c), r, c); });
        T shift = lanes.max(-infinity, [&](std::int64_t c) { return p(begin + c); });
        if (shift == -infinity) shift = T{0};
        lanes.each([&](std::int64_t c) { p(begin + c) = math::exp(p(begin + c) - shift); });
        const T sum = lanes.sum([&](std::int64_t c) { return p(begin + c); });
        const T inverse = sum == T{0} ? T{1} : T{1} / sum;
        lanes.each([&](std::int64_t c) { p(begin + c) *= inverse; });
        lanes.once([&] { sums(r) = sum == T{0} ? infinity : shift + std::log(sum); });
      });
}

/// Turns rows of q k^T into probabilities, and rows of dO v^T into the gradient of q k^T.
template <class T, class Space>
void gradient_kernel(const Space& space, const VisibleScores<T>& visible, const Tensor& log_sum,
                     const Tensor& row_dots, const Tensor& scores, const Tensor& gradient) {
  const auto p = flat_view<Space, T>(scores), ds = flat_view<Space, T>(gradient);
  const auto sums = flat_view<Space, const T>(log_sum);
  const T* const dots = static_cast<const T*>(row_dots.kernel_data());
  const std::int64_t keys = visible.keys, rows = log_sum.numel();
  for_each_row(
      "lockstep::attention_gradient", space, rows, keys,
      KOKKOS_LAMBDA(std::int64_t r, const Lanes<Space>& lanes) {
        const std::int64_t begin = r * keys;
        const T log_sum_of_row = sums(r);
        lanes.each([&](std::int64_t c) {
          p(begin + c) = math::exp(visible.score(p(begin + c), r, c) - log_sum_of_row);
        });
        const T common = dots != nullptr ? dots[r] : lanes.sum([&](std::int64_t c) {
          return p(begin + c) * ds(begin + c);
        });
        lanes.each([&](std::int64_t c) {
          ds(begin + c) = visible.scale * (p(begin + c) * (ds(begin + c) - common));
        });
      });
}

/// Calls f(part) for parts of the batch whose scores are in memory at the same time.
template <class F>
void for_each_part(const AttentionPlan& plan, const F& f) {
  const std::int64_t together = samples_at_a_time(plan);
  for (std::int64_t begin = 0; begin < plan.batch; begin += together) {
    f(Part{begin, std::min(together, plan.batch - begin)});
  }
}

Tensor scores_of(const AttentionPlan& plan, const Part& part, const Tensor& like) {
  return Tensor::empty({part.count, plan.heads, plan.queries, plan.keys}, like.dtype(),
                       like.device());
}

}  // namespace

std::int64_t samples_at_a_time(const AttentionPlan& plan) {
  constexpr std::int64_t elements = std::int64_t{1} << 26U;
  const std::int64_t sample = std::max<std::int64_t>(plan.heads * plan.queries * plan.keys, 1);
  return std::clamp<std::int64_t>(elements / sample, 1, std::max<std::int64_t>(plan.batch, 1));
}

void attention_forward_by_products(const AttentionPlan& plan, const Heads& q, const Heads& k,
                                   const Heads& v, const Heads& out, const Tensor& log_sum) {
  static_cast<void>(common_device("attention", {&q.tensor, &k.tensor, &v.tensor, &out.tensor,
                                                &log_sum, &plan.mask, &plan.key_padding_mask}));
  const Operands of(q, k, v);
  const Grouped grouped(plan);
  for_each_part(plan, [&](const Part& part) {
    const Tensor scores = scores_of(plan, part, log_sum);
    const Heads of_scores = grouped.scores(scores);
    multiply(grouped.heads, part.count, {.m = grouped.queries, .n = plan.keys, .k = plan.width},
             from(grouped(of.q), part.begin), false, from(of.k, part.begin), true, of_scores);
    const Tensor sums = log_sum.slice(part.begin, part.begin + part.count);
    dispatch(current_stream(scores.device()), [&](const auto& space) {
      dispatch_floating(scores.dtype(), "attention", [&]<class T>() {
        softmax_kernel<T>(space, VisibleScores<T>(plan, part.begin), scores, sums);
      });
    });
    multiply(grouped.heads, part.count, {.m = grouped.queries, .n = plan.width, .k = plan.keys},
             converted(of_scores, of.dtype), false, from(of.v, part.begin), false,
             from(grouped(out), part.begin));
  });
}

void attention_backward_by_products(const AttentionPlan& plan, const Heads& grad_out,
                                    const Heads& q, const Heads& k, const Heads& v,
                                    const Tensor& log_sum, const AttentionGrad& grad_q,
                                    const AttentionGrad& grad_k, const AttentionGrad& grad_v,
                                    const Tensor& row_dots) {
  static_cast<void>(common_device(
      "attention",
      {&grad_out.tensor, &q.tensor, &k.tensor, &v.tensor, &log_sum, &grad_q.heads.tensor,
       &grad_k.heads.tensor, &grad_v.heads.tensor, &row_dots, &plan.mask, &plan.key_padding_mask}));
  const Operands of(q, k, v);
  const Grouped grouped(plan);
  const Heads queries = grouped(of.q), upstream = grouped(converted(grad_out, of.dtype));
  for_each_part(plan, [&](const Part& part) {
    const auto here = [&](const Heads& heads) { return from(heads, part.begin); };
    const Tensor scores = scores_of(plan, part, log_sum), gradient = scores_of(plan, part, log_sum);
    const math::ProductSize inner{.m = grouped.queries, .n = plan.keys, .k = plan.width};
    multiply(grouped.heads, part.count, inner, here(queries), false, here(of.k), true,
             grouped.scores(scores));
    multiply(grouped.heads, part.count, inner, here(upstream), false, here(of.v), true,
             grouped.scores(gradient));
    const auto rows_here = [&](const Tensor& t) {
      return t.defined() ? t.slice(part.begin, part.begin + part.count) : t;
    };
    const Tensor sums = rows_here(log_sum), dots = rows_here(row_dots);
    dispatch(current_stream(scores.device()), [&](const auto& space) {
      dispatch_floating(scores.dtype(), "attention", [&]<class T>() {
        gradient_kernel<T>(space, VisibleScores<T>(plan, part.begin), sums, dots, scores, gradient);
      });
    });
    const Heads p = converted(grouped.scores(scores), of.dtype);
    const Heads ds = converted(grouped.scores(gradient), of.dtype);
    const auto add = [&](const AttentionGrad& to, const Heads& rows, bool transposed,
                         const Heads& by) {
      if (!to.heads.tensor.defined()) return;
      multiply(grouped.heads, part.count,
               {.m = transposed ? plan.keys : grouped.queries,
                .n = plan.width,
                .k = transposed ? grouped.queries : plan.keys,
                .accumulate = to.accumulate},
               rows, transposed, by, false, here(to.heads));
    };
    add(grad_v, p, true, here(upstream));
    add({grouped(grad_q.heads), grad_q.accumulate}, ds, false, here(of.k));
    add(grad_k, ds, true, here(queries));
  });
}

}  // namespace lockstep::detail
