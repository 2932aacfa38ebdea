// Vaswani et al. 2017 (arXiv:1706.03762), section 3.2.1. The rows of scores are computed a block of
// queries at a time and never leave the cache; backward rebuilds them from their log-sums (Dao et
// al. 2022, arXiv:2205.14135, section 3.1). With P the probabilities and dO the output's gradient:
//   dV = P^T dO,  dP = dO V^T,  dS = P * (dP - rowsum(P * dP)),  dQ = scale dS K,  dK = scale dS^T
//   Q
// Since rowsum(P * dP) = rowsum(dO * O), it can be given (row_dots) where not all keys are here.
#include <lockstep/tensor/kernels/sequence/attention.hpp>

#include <algorithm>
#include <limits>
#include <string>

#include <lockstep/tensor/dispatch.hpp>
#include <lockstep/tensor/kernels/elementwise/math_functions.hpp>
#include <lockstep/tensor/kernels/for_each.hpp>
#include <lockstep/tensor/kernels/host_task.hpp>
#include <lockstep/tensor/kernels/sequence/attention_fused.hpp>
#include <lockstep/tensor/kernels/sequence/attention_products.hpp>
#include <lockstep/tensor/math/device_math.hpp>
#include <lockstep/tensor/math/gemm.hpp>
#include <lockstep/tensor/precision.hpp>

namespace lockstep {
namespace {

using Host = HostExecutionSpace;

/// Rows of scores are whole vectors: columns after the last key hold -inf, then 0.
constexpr std::int64_t padding = 16;

template <class T>
constexpr T infinity = std::numeric_limits<T>::infinity();

// Plans and heads without their tensors; a task has those as arrays.

struct Numbers {
  std::int64_t batch, heads, group_heads, queries, keys, width;
  double scale;
  bool causal;

  explicit Numbers(const AttentionPlan& plan)
      : batch(plan.batch),
        heads(plan.heads),
        group_heads(plan.group_heads),
        queries(plan.queries),
        keys(plan.keys),
        width(plan.width),
        scale(plan.scale),
        causal(plan.causal) {}
};

struct Problem : Numbers {
  HostArray mask, key_padding_mask;

  [[nodiscard]] std::int64_t key_heads() const { return heads / group_heads; }

  Problem(const Numbers& numbers, const HostArray& see, const HostArray& hidden)
      : Numbers(numbers), mask(see), key_padding_mask(hidden) {}
};

struct Place {
  std::int64_t offset, batch, head, row;
  explicit Place(const Heads& x) : offset(x.offset), batch(x.batch), head(x.head), row(x.row) {}
};

struct GradPlace : Place {
  bool accumulate;
  explicit GradPlace(const AttentionGrad& x) : Place(x.heads), accumulate(x.accumulate) {}
};

struct HeadsArray {
  HostArray array;
  Place place;
};

/// Empty if the gradient is not wanted.
struct GradArray {
  HostArray array;
  GradPlace place;
};

/// The rows of one head: [T,D] at a stride.
template <class T>
struct HeadRows {
  T* data;
  std::int64_t stride;

  [[nodiscard]] T* row(std::int64_t t) const { return data + t * stride; }
  [[nodiscard]] math::Matrix<std::remove_const_t<T>> from(std::int64_t t,
                                                          bool transposed = false) const {
    return {row(t), stride, transposed};
  }
};

template <class T>
HeadRows<T> rows_of(const HeadsArray& x, std::int64_t b, std::int64_t h) {
  const Place& at = x.place;
  return {static_cast<T*>(x.array.data()) + at.offset + b * at.batch + h * at.head, at.row};
}

/// Rows as operands of products: the source rows, of type T or of 16 bits, or a copy in O. Rows of
/// 16 bits that lie apart are copied once, instead of in every product (math/narrow_product.hpp).
template <class T, class O>
class OperandRows {
 public:
  OperandRows(std::int64_t rows, std::int64_t width, DType source = dtype_of<T>) {
    if (sizeof(O) == 2 || source != dtype_of<O>) {
      memory_ = Tensor::empty({rows, width}, dtype_of<O>);
    }
  }
  template <class Source>
  HeadRows<const O> of(const HeadRows<const Source>& from, std::int64_t rows,
                       std::int64_t width) const {
    if constexpr (std::is_same_v<Source, O> && sizeof(O) != 2) {
      return from;
    } else {
      if constexpr (std::is_same_v<Source, O>) {
        if (from.stride == width) return from;
      }
      O* const begin = static_cast<O*>(memory_.data());
      for (std::int64_t t = 0; t < rows; ++t) {
        for (std::int64_t c = 0; c < width; ++c) {
          begin[t * width + c] = O(static_cast<T>(from.row(t)[c]));
        }
      }
      return {begin, width};
    }
  }
  /// The rows of one head.
  HeadRows<const O> of(const HeadsArray& x, std::int64_t b, std::int64_t h, std::int64_t rows,
                       std::int64_t width) const {
    switch (x.array.dtype()) {
      case DType::bf16:
        return of(rows_of<const BFloat16>(x, b, h), rows, width);
      case DType::f16:
        return of(rows_of<const Float16>(x, b, h), rows, width);
      default:
        return of(rows_of<const T>(x, b, h), rows, width);
    }
  }

 private:
  Tensor memory_;
};

/// The blocks of queries of a head, and their scores.
template <class T>
class Blocks {
 public:
  Blocks(const Problem& plan, int arrays)
      : plan_(plan), stride_((plan.keys + padding - 1) / padding * padding) {
    // 128 KiB of scores stay in cache beside the operands. A causal block skips the part to its
    // right, so it is no taller than efficient products need.
    constexpr std::int64_t elements = std::int64_t{128 * 1024} / sizeof(T);
    rows_ = std::max<std::int64_t>(elements / std::max<std::int64_t>(stride_, 1), 16);
    if (plan.causal) rows_ = std::min<std::int64_t>(rows_, 64);
    rows_ = std::max<std::int64_t>(std::min(rows_, plan.queries), 1);
    scores_ = Tensor::empty({arrays, rows_, stride_}, dtype_of<T>);
  }

  [[nodiscard]] std::int64_t height() const { return rows_; }
  [[nodiscard]] std::int64_t count() const { return (plan_.queries + rows_ - 1) / rows_; }
  [[nodiscard]] std::int64_t begin(std::int64_t block) const { return block * rows_; }
  [[nodiscard]] std::int64_t end(std::int64_t block) const {
    return std::min((block + 1) * rows_, plan_.queries);
  }
  /// Keys [0, this) are visible to the queries before `end`.
  [[nodiscard]] std::int64_t visible(std::int64_t end) const {
    return plan_.causal ? std::min(end, plan_.keys) : plan_.keys;
  }
  [[nodiscard]] HeadRows<T> scores(int array) const {
    return {static_cast<T*>(scores_.data()) + array * rows_ * stride_, stride_};
  }

 private:
  const Problem& plan_;
  std::int64_t stride_, rows_ = 1;
  Tensor scores_;
};

/// Turns row `query` of sample b's q k^T into scale q k^T, with -inf where the key is hidden.
/// Returns the number of columns in whole vectors that hold the visible keys.
template <class T>
std::int64_t finish_scores(const Problem& plan, std::int64_t b, std::int64_t query,
                           std::int64_t columns, T* row) {
  const T scale = static_cast<T>(plan.scale);
  const std::int64_t seen = plan.causal ? std::min(query + 1, columns) : columns;
  const std::int64_t padded = (columns + padding - 1) / padding * padding;
  if (plan.mask.defined()) {
    const bool* see = static_cast<const bool*>(plan.mask.data()) + query * plan.keys;
    for (std::int64_t c = 0; c < seen; ++c) row[c] = see[c] ? scale * row[c] : -infinity<T>;
  } else {
    for (std::int64_t c = 0; c < seen; ++c) row[c] *= scale;
  }
  if (plan.key_padding_mask.defined()) {
    const bool* hidden = static_cast<const bool*>(plan.key_padding_mask.data()) + b * plan.keys;
    for (std::int64_t c = 0; c < seen; ++c) row[c] = hidden[c] ? -infinity<T> : row[c];
  }
  std::fill(row + seen, row + padded, -infinity<T>);
  return padded;
}

/// row = softmax(row); returns the logarithm of the sum of exponentials. A row of only -inf becomes
/// 0 and returns +inf, for which exp(row - log_sum) is 0 again.
template <class T>
T normalise(T* row, std::int64_t padded) {
  const Lanes<Host> lanes(padded);
  T shift = lanes.max(-infinity<T>, [&](std::int64_t c) { return row[c]; });
  if (shift == -infinity<T>) shift = T{0};  // no key is visible, or a score is NaN
  lanes.each([&](std::int64_t c) { row[c] = math::exp(row[c] - shift); });
  const T sum = lanes.sum([&](std::int64_t c) { return row[c]; });
  if (sum == T{0}) return infinity<T>;
  const T inverse = T{1} / sum;
  lanes.each([&](std::int64_t c) { row[c] *= inverse; });
  return shift + std::log(sum);
}

/// The output is of type S, O that of the products' operands, T that of scores and sums.
template <class T, class O, class S>
void forward(const Problem& plan, const HeadsArray& q, const HeadsArray& k, const HeadsArray& v,
             const HeadsArray& out, const HostArray& log_sum) {
  const Blocks<T> blocks(plan, 1);
  const HeadRows<T> scores = blocks.scores(0);
  const OperandRows<T, O> of_q(plan.queries, plan.width),
      of_k(plan.keys, plan.width, k.array.dtype()), of_v(plan.keys, plan.width, v.array.dtype()),
      of_scores(blocks.height(), plan.keys);
  T* log_sums = static_cast<T*>(log_sum.data());
  HeadRows<const O> key{}, value{};
  for (std::int64_t head = 0; head < plan.batch * plan.heads; ++head, log_sums += plan.queries) {
    const std::int64_t b = head / plan.heads, h = head % plan.heads;
    const auto query = of_q.of(q, b, h, plan.queries, plan.width);
    if (h % plan.group_heads == 0) {
      key = of_k.of(k, b, h / plan.group_heads, plan.keys, plan.width);
      value = of_v.of(v, b, h / plan.group_heads, plan.keys, plan.width);
    }
    const auto result = rows_of<S>(out, b, h);
    for (std::int64_t block = 0; block < blocks.count(); ++block) {
      const std::int64_t begin = blocks.begin(block), end = blocks.end(block);
      const std::int64_t columns = blocks.visible(end);
      math::gemm(end - begin, columns, plan.width, query.from(begin), key.from(0, true), T{0},
                 scores.data, scores.stride);
      for (std::int64_t t = begin; t < end; ++t) {
        T* row = scores.row(t - begin);
        log_sums[t] = normalise(row, finish_scores(plan, b, t, columns, row));
      }
      const auto p =
          of_scores.of(HeadRows<const T>{scores.data, scores.stride}, end - begin, columns);
      math::gemm(end - begin, plan.width, columns, p.from(0), value.from(0), T{0},
                 result.row(begin), result.stride);
    }
  }
}

/// A gradient of one head, of type S; data is null for one that is not wanted. T is that of sums.
template <class T, class S>
struct GradRows {
  HeadRows<S> rows{nullptr, 0};
  T keep{0};  ///< factor of the old values: 0 or 1

  GradRows(const GradArray& grad, std::int64_t b, std::int64_t h) {
    if (!grad.array.defined()) return;
    rows = rows_of<S>({grad.array, grad.place}, b, h);
    keep = grad.place.accumulate ? T{1} : T{0};
  }
  /// Of a head of which several blocks add to one gradient.
  explicit GradRows(const HeadRows<S>& sums) : rows(sums) {}
  [[nodiscard]] bool wanted() const { return rows.data != nullptr; }

  /// rows[begin, begin + m) (+)= a[m,k] b[k,width]
  template <class O>
  void add(std::int64_t begin, std::int64_t m, std::int64_t width, std::int64_t k,
           const math::Matrix<O>& a, const math::Matrix<O>& b) const {
    math::gemm(m, width, k, a, b, keep, rows.row(begin), rows.stride);
  }

  /// Rows [begin, end) get no gradient.
  void skip(std::int64_t begin, std::int64_t end, std::int64_t width) const {
    if (!wanted() || keep != T{0}) return;
    for (std::int64_t t = begin; t < end; ++t) std::fill_n(rows.row(t), width, S());
  }
};

/// Where all blocks of queries add to the gradient of the keys or of the values of one head: to
/// that itself, or to sums in memory of their own, which finish() rounds once.
template <class T, class S>
class SummedGrad {
 public:
  SummedGrad(const GradArray& grad, std::int64_t rows, std::int64_t width)
      : grad_(grad), width_(width) {
    if (!std::is_same_v<T, S> && grad.array.defined()) {
      sums_ = Tensor::empty({rows, width}, dtype_of<T>);
    }
  }

  [[nodiscard]] GradRows<T, T> begin(std::int64_t b, std::int64_t h) const {
    if constexpr (std::is_same_v<T, S>) {
      return {grad_, b, h};
    } else {
      return GradRows<T, T>({static_cast<T*>(sums_.kernel_data()), width_});
    }
  }
  /// Rows [0, reached) have sums, the rest gets no gradient.
  void finish(std::int64_t b, std::int64_t h, std::int64_t reached, std::int64_t rows) const {
    const GradRows<T, S> to(grad_, b, h);
    to.skip(reached, rows, width_);
    if constexpr (!std::is_same_v<T, S>) {
      if (!to.wanted()) return;
      const T* sums = static_cast<const T*>(sums_.data());
      const bool adds = to.keep != T{0};
      for (std::int64_t t = 0; t < reached; ++t, sums += width_) {
        S* const row = to.rows.row(t);
        for (std::int64_t c = 0; c < width_; ++c) {
          row[c] = S(sums[c] + (adds ? static_cast<T>(row[c]) : T{0}));
        }
      }
    }
  }

 private:
  GradArray grad_;
  std::int64_t width_;
  Tensor sums_;
};

/// Gradients are of type S, O and T as in forward().
template <class T, class O, class S>
void backward(const Problem& plan, const HeadsArray& grad_out, const HeadsArray& q,
              const HeadsArray& k, const HeadsArray& v, const HostArray& log_sum,
              const GradArray& grad_q, const GradArray& grad_k, const GradArray& grad_v,
              const HostArray& row_dots) {
  const std::int64_t width = plan.width;
  const T scale = static_cast<T>(plan.scale);
  const Blocks<T> blocks(plan, 2);
  const HeadRows<T> p = blocks.scores(0), ds = blocks.scores(1);
  const OperandRows<T, O> of_q(plan.queries, width), of_k(plan.keys, width, k.array.dtype()),
      of_v(plan.keys, width, v.array.dtype()), of_upstream(plan.queries, width);
  const SummedGrad<T, S> of_dk(grad_k, plan.keys, width), of_dv(grad_v, plan.keys, width);
  const OperandRows<T, O> of_p(blocks.height(), plan.keys), of_ds(blocks.height(), plan.keys);
  const T* log_sums = static_cast<const T*>(log_sum.data());
  const T* const dots = static_cast<const T*>(row_dots.data());
  // The last block comes first: it sees all keys that any block sees, so that the others can add.
  const std::int64_t reached = plan.queries == 0 ? 0 : blocks.visible(plan.queries);
  for (std::int64_t group = 0; group < plan.batch * plan.key_heads(); ++group) {
    const std::int64_t b = group / plan.key_heads(), key_head = group % plan.key_heads();
    const auto key = of_k.of(k, b, key_head, plan.keys, width);
    const auto value = of_v.of(v, b, key_head, plan.keys, width);
    GradRows<T, T> dk = of_dk.begin(b, key_head), dv = of_dv.begin(b, key_head);
    for (std::int64_t member = 0; member < plan.group_heads; ++member, log_sums += plan.queries) {
      const std::int64_t head = group * plan.group_heads + member, h = head % plan.heads;
      const auto query = of_q.of(q, b, h, plan.queries, width);
      const auto upstream = of_upstream.of(grad_out, b, h, plan.queries, width);
      const GradRows<T, S> dq(grad_q, b, h);
      for (std::int64_t block = blocks.count() - 1; block >= 0; --block) {
        const std::int64_t begin = blocks.begin(block), end = blocks.end(block), rows = end - begin;
        const std::int64_t columns = blocks.visible(end);
        math::gemm(rows, columns, width, query.from(begin), key.from(0, true), T{0}, p.data,
                   p.stride);
        math::gemm(rows, columns, width, upstream.from(begin), value.from(0, true), T{0}, ds.data,
                   ds.stride);
        for (std::int64_t t = begin; t < end; ++t) {
          T *probability = p.row(t - begin), *row = ds.row(t - begin), log_sum_t = log_sums[t];
          Lanes<Host>(finish_scores(plan, b, t, columns, probability)).each([&](std::int64_t c) {
            probability[c] = math::exp(probability[c] - log_sum_t);
          });
          const Lanes<Host> lanes(columns);
          const T common = row_dots.defined()
                               ? dots[head * plan.queries + t]
                               : lanes.sum([&](std::int64_t c) { return probability[c] * row[c]; });
          lanes.each(
              [&](std::int64_t c) { row[c] = scale * (probability[c] * (row[c] - common)); });
        }
        const auto p_rows = of_p.of(HeadRows<const T>{p.data, p.stride}, rows, columns);
        const auto ds_rows = of_ds.of(HeadRows<const T>{ds.data, ds.stride}, rows, columns);
        if (dv.wanted())
          dv.add(0, columns, width, rows, p_rows.from(0, true), upstream.from(begin));
        if (dq.wanted()) dq.add(begin, rows, width, columns, ds_rows.from(0), key.from(0));
        if (dk.wanted()) dk.add(0, columns, width, rows, ds_rows.from(0, true), query.from(begin));
        dk.keep = dv.keep = T{1};
      }
    }
    of_dk.finish(b, key_head, reached, plan.keys);
    of_dv.finish(b, key_head, reached, plan.keys);
  }
}

/// Calls f.template operator()<T, O, S>() for tensors of `dtype`, S, and the type of the products'
/// operands: that, or of this thread's precision.
template <class F>
void dispatch_attention(DType dtype, const F& f) {
  const Precision precision = dtype == DType::f32 ? product_precision() : Precision::f32;
  if (precision == Precision::bf16) return f.template operator()<float, BFloat16, float>();
  if (precision == Precision::fp16) return f.template operator()<float, Float16, float>();
  dispatch_stored(dtype, "attention", [&]<class S>() { f.template operator()<SumOf<S>, S, S>(); });
}

}  // namespace

Heads heads_of(const Tensor& t) {
  const std::int64_t row = t.size(3), head = t.size(2) * row;
  return {.tensor = t, .offset = 0, .batch = t.size(1) * head, .head = head, .row = row};
}

Heads heads_in(const Tensor& x, std::int64_t heads, std::int64_t part, std::int64_t parts) {
  const std::int64_t row = x.size(2), embed = row / parts;
  return {.tensor = x,
          .offset = part * embed,
          .batch = x.size(1) * row,
          .head = embed / heads,
          .row = row};
}

bool attention_forward(const AttentionPlan& plan, const Heads& q, const Heads& k, const Heads& v,
                       const Heads& out, const Tensor& log_sum) {
  if (math::device_math(q.tensor.device())) [[unlikely]] {
    if (detail::attention_forward_fused(plan, q, k, v, out, log_sum)) return true;
    detail::attention_forward_by_products(plan, q, k, v, out, log_sum);
    return false;
  }
  dispatch_attention(q.tensor.dtype(), [&]<class T, class O, class S>() {
    const Numbers numbers(plan);
    host_task(
        "attention",
        [numbers, at_q = Place(q), at_k = Place(k), at_v = Place(v), at_out = Place(out)](
            const HostArray& q, const HostArray& k, const HostArray& v, const HostArray& out,
            const HostArray& log_sum, const HostArray& mask, const HostArray& key_padding_mask) {
          forward<T, O, S>({numbers, mask, key_padding_mask}, {q, at_q}, {k, at_k}, {v, at_v},
                           {out, at_out}, log_sum);
        },
        q.tensor, k.tensor, v.tensor, out.tensor, log_sum, plan.mask, plan.key_padding_mask);
  });
  return false;
}

bool attention_backward(const AttentionPlan& plan, const Heads& grad_out, const Heads& q,
                        const Heads& k, const Heads& v, const Tensor& log_sum,
                        const AttentionGrad& grad_q, const AttentionGrad& grad_k,
                        const AttentionGrad& grad_v, const Tensor& row_dots, const Heads& out) {
  if (math::device_math(q.tensor.device())) [[unlikely]] {
    if (out.tensor.defined() && !row_dots.defined() &&
        detail::attention_backward_fused(plan, grad_out, q, k, v, out, log_sum, grad_q, grad_k,
                                         grad_v)) {
      return true;
    }
    detail::attention_backward_by_products(plan, grad_out, q, k, v, log_sum, grad_q, grad_k, grad_v,
                                           row_dots);
    return false;
  }
  dispatch_attention(q.tensor.dtype(), [&]<class T, class O, class S>() {
    const Numbers numbers(plan);
    host_task(
        "attention",
        [numbers, at_out = Place(grad_out), at_q = Place(q), at_k = Place(k), at_v = Place(v),
         to_q = GradPlace(grad_q), to_k = GradPlace(grad_k), to_v = GradPlace(grad_v)](
            const HostArray& grad_out, const HostArray& q, const HostArray& k, const HostArray& v,
            const HostArray& log_sum, const HostArray& grad_q, const HostArray& grad_k,
            const HostArray& grad_v, const HostArray& row_dots, const HostArray& mask,
            const HostArray& key_padding_mask) {
          backward<T, O, S>({numbers, mask, key_padding_mask}, {grad_out, at_out}, {q, at_q},
                            {k, at_k}, {v, at_v}, log_sum, {grad_q, to_q}, {grad_k, to_k},
                            {grad_v, to_v}, row_dots);
        },
        grad_out.tensor, q.tensor, k.tensor, v.tensor, log_sum, grad_q.heads.tensor,
        grad_k.heads.tensor, grad_v.heads.tensor, row_dots, plan.mask, plan.key_padding_mask);
  });
  return false;
}

}  // namespace lockstep
