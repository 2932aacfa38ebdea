#include <lockstep/tensor/kernels/sequence/attention_blocks.hpp>

#include <cmath>
#include <limits>

#include <lockstep/tensor/dispatch.hpp>
#include <lockstep/tensor/kernels/elementwise/math_functions.hpp>
#include <lockstep/tensor/kernels/for_each.hpp>

namespace lockstep {
namespace {

/// The rows of heads by their number, one of (sample, head, position): number x is row
/// x % positions of head x / positions % heads.
template <class T, class Space>
struct RowsOfHeads {
  decltype(flat_view<Space, T>(Tensor())) elements;
  std::int64_t heads, positions, offset, batch, head, row;

  RowsOfHeads(const Heads& x, const Shape& rows)
      : elements(flat_view<Space, T>(x.tensor)),
        heads(rows[1]),
        positions(rows[2]),
        offset(x.offset),
        batch(x.batch),
        head(x.head),
        row(x.row) {}
  /// The number of the row's first element.
  KOKKOS_FUNCTION std::int64_t begin(std::int64_t r) const {
    const std::int64_t h = r / positions;
    return offset + h / heads * batch + h % heads * head + r % positions * row;
  }
};

/// Updates log-sums, and turns the block's into weights. A kernel of its own: a device's lanes of a
/// row must all have read the log-sum before one of them writes it.
template <class T, class Space>
void merge_sums_kernel(const Space& space, const Tensor& log_sum, const Tensor& block_log_sum) {
  const auto sums = flat_view<Space, T>(log_sum), block = flat_view<Space, T>(block_log_sum);
  for_each(
      "lockstep::merge_attention", space, log_sum.numel(), KOKKOS_LAMBDA(std::int64_t r) {
        constexpr T infinity = std::numeric_limits<T>::infinity();
        const T here = sums(r), there = block(r);
        if (there == infinity || here == infinity) {  // one of them has no keys
          block(r) = there == infinity ? T{0} : T{1};
          sums(r) = there == infinity ? here : there;
          return;
        }
        const T larger = there > here ? there : here;
        const T log_total = larger + std::log(math::exp(here - larger) + math::exp(there - larger));
        block(r) = math::exp(there - log_total);
        sums(r) = log_total;
      });
}

template <class T, class Space>
void merge_rows_kernel(const Space& space, const Tensor& block, const Tensor& weights,
                       const Heads& out) {
  const auto part = flat_view<Space, const T>(block), weight = flat_view<Space, const T>(weights);
  const RowsOfHeads<T, Space> rows(out, weights.shape());
  const std::int64_t width = block.size(3);
  for_each_row(
      "lockstep::merge_attention", space, weights.numel(), width,
      KOKKOS_LAMBDA(std::int64_t r, const Lanes<Space>& lanes) {
        const std::int64_t begin = rows.begin(r);
        const T add = weight(r), keep = T{1} - add;
        lanes.each([&](std::int64_t c) {
          rows.elements(begin + c) = keep * rows.elements(begin + c) + add * part(r * width + c);
        });
      });
}

template <class T, class Space>
void row_dots_kernel(const Space& space, const Heads& grad_out, const Heads& out,
                     std::int64_t width, const Tensor& dots) {
  const RowsOfHeads<const T, Space> g(grad_out, dots.shape()), y(out, dots.shape());
  const auto result = flat_view<Space, T>(dots);
  for_each_row(
      "lockstep::attention_row_dots", space, dots.numel(), width,
      KOKKOS_LAMBDA(std::int64_t r, const Lanes<Space>& lanes) {
        const std::int64_t of_g = g.begin(r), of_y = y.begin(r);
        const T dot =
            lanes.sum([&](std::int64_t c) { return g.elements(of_g + c) * y.elements(of_y + c); });
        lanes.once([&] { result(r) = dot; });
      });
}

}  // namespace

void merge_attention(const Tensor& block, const Tensor& block_log_sum, const Heads& out,
                     const Tensor& log_sum) {
  dispatch(current_stream(log_sum.device()), [&](const auto& space) {
    dispatch_floating(log_sum.dtype(), "attention", [&]<class T>() {
      merge_sums_kernel<T>(space, log_sum, block_log_sum);
      merge_rows_kernel<T>(space, block, block_log_sum, out);
    });
  });
}

void attention_row_dots(const Heads& grad_out, const Heads& out, std::int64_t width,
                        const Tensor& dots) {
  dispatch(current_stream(dots.device()), [&](const auto& space) {
    dispatch_floating(dots.dtype(), "attention",
                      [&]<class T>() { row_dots_kernel<T>(space, grad_out, out, width, dots); });
  });
}

}  // namespace lockstep
