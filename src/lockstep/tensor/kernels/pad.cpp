#include <lockstep/tensor/kernels/pad.hpp>

#include <algorithm>

#include <lockstep/tensor/dispatch.hpp>
#include <lockstep/tensor/kernels/elementwise.hpp>

namespace lockstep {
namespace {

/// Where place `i` of a padded dimension comes from; -1: from nowhere.
std::int64_t source_of(std::int64_t i, std::int64_t before, std::int64_t extent, PadMode mode) {
  const std::int64_t at = i - before;
  if (at >= 0 && at < extent) return at;
  switch (mode) {
    case PadMode::constant:
      return -1;
    case PadMode::reflect:
      return at < 0 ? -at : 2 * extent - 2 - at;
    case PadMode::replicate:
      return at < 0 ? 0 : extent - 1;
    case PadMode::circular:
      return at < 0 ? at + extent : at - extent;
  }
  return -1;
}

/// Calls row(y row, x row or nullptr) for every row along the last dimension of y.
template <class T, class F>
void for_each_padded_row(const Shape& from, const Shape& to, const PadAmounts& amounts,
                         PadMode mode, const F& row) {
  const int dims = to.dims();
  const std::int64_t width = to[-1], rows = width == 0 ? 0 : to.numel() / width;
  std::array<std::int64_t, Shape::max_dims> index{};
  for (std::int64_t r = 0; r < rows; ++r) {
    std::int64_t x_row = 0;
    for (int d = 0; d + 1 < dims && x_row >= 0; ++d) {
      const auto back = static_cast<std::size_t>(dims - 1 - d);
      const std::int64_t at =
          source_of(index[static_cast<std::size_t>(d)], amounts.before[back], from[d], mode);
      x_row = at < 0 ? -1 : x_row * from[d] + at;
    }
    row(r * width, x_row < 0 ? -1 : x_row * from[-1]);
    for (int d = dims - 2; d >= 0; --d) {
      if (++index[static_cast<std::size_t>(d)] < to[d]) break;
      index[static_cast<std::size_t>(d)] = 0;
    }
  }
}

/// The part of a padded row that is x's row itself: [begin, end), from `first` on.
struct Middle {
  std::int64_t begin, end, first;
  Middle(const Shape& from, const Shape& to, const PadAmounts& amounts)
      : begin(std::clamp<std::int64_t>(amounts.before[0], 0, to[-1])),
        end(std::clamp<std::int64_t>(amounts.before[0] + from[-1], begin, to[-1])),
        first(begin - amounts.before[0]) {}
};

template <class T>
void pad_rows(const Tensor& x, const PadAmounts& amounts, PadMode mode, T value, const Tensor& y) {
  const Shape &from = x.shape(), &to = y.shape();
  const Middle middle(from, to, amounts);
  const auto* const in = static_cast<const T*>(x.data());
  auto* const out = static_cast<T*>(y.data());
  const std::int64_t width = to[-1], extent = from[-1], before = amounts.before[0];
  for_each_padded_row<T>(from, to, amounts, mode, [&](std::int64_t row, std::int64_t source) {
    T* const line = out + row;
    if (source < 0) return static_cast<void>(std::fill_n(line, width, value));
    const auto edge = [&](std::int64_t i) {
      const std::int64_t at = source_of(i, before, extent, mode);
      line[i] = at < 0 ? value : in[source + at];
    };
    for (std::int64_t i = 0; i < middle.begin; ++i) edge(i);
    std::copy_n(in + source + middle.first, middle.end - middle.begin, line + middle.begin);
    for (std::int64_t i = middle.end; i < width; ++i) edge(i);
  });
}

template <class T>
void unpad_rows(const Tensor& grad_y, const PadAmounts& amounts, PadMode mode,
                const Tensor& grad_x) {
  const Shape &from = grad_x.shape(), &to = grad_y.shape();
  const Middle middle(from, to, amounts);
  const auto* const in = static_cast<const T*>(grad_y.data());
  auto* const out = static_cast<T*>(grad_x.data());
  const std::int64_t width = to[-1], extent = from[-1], before = amounts.before[0];
  for_each_padded_row<T>(from, to, amounts, mode, [&](std::int64_t row, std::int64_t target) {
    if (target < 0) return;
    const T* const line = in + row;
    const auto edge = [&](std::int64_t i) {
      const std::int64_t at = source_of(i, before, extent, mode);
      if (at >= 0) out[target + at] += line[i];
    };
    for (std::int64_t i = 0; i < middle.begin; ++i) edge(i);
    T* const to_middle = out + target + middle.first - middle.begin;
#pragma omp simd
    for (std::int64_t i = middle.begin; i < middle.end; ++i) to_middle[i] += line[i];
    for (std::int64_t i = middle.end; i < width; ++i) edge(i);
  });
}

}  // namespace

void pad_forward(const Tensor& x, const PadAmounts& amounts, PadMode mode, double value,
                 const Tensor& y) {
  dispatch_floating(x.dtype(), "pad",
                    [&]<class T>() { pad_rows(x, amounts, mode, static_cast<T>(value), y); });
}

void pad_backward(const Tensor& grad_y, const PadAmounts& amounts, PadMode mode, bool accumulate,
                  const Tensor& grad_x) {
  if (!accumulate) fill(grad_x, 0.0);
  dispatch_floating(grad_x.dtype(), "pad",
                    [&]<class T>() { unpad_rows<T>(grad_y, amounts, mode, grad_x); });
}

}  // namespace lockstep
