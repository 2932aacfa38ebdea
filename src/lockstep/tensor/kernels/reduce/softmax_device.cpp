#include <lockstep/tensor/kernels/reduce/softmax_device.hpp>

#include <cmath>

#include <lockstep/tensor/dispatch.hpp>
#include <lockstep/tensor/kernels/elementwise/math_functions.hpp>
#include <lockstep/tensor/kernels/packed_row.hpp>
#include <lockstep/tensor/kernels/reduce/log_sum_exp_row.hpp>

namespace lockstep::detail {
namespace {

/// f.template operator()<n, T>(space) for the packs and the type of these tensors [rows, width].
template <class F>
void dispatch_packed(const char* operation, std::int64_t width,
                     std::initializer_list<const Tensor*> tensors, const F& f) {
  const Tensor& first = **tensors.begin();
  dispatch(current_stream(first.device()), [&](const auto& space) {
    dispatch_stored(first.dtype(), operation, [&]<class T>() {
      with_packed_rows<T>(width, tensors, [&]<int n>() { f.template operator()<n, T>(space); });
    });
  });
}

template <int n, class T, class Space>
void softmax_forward_kernel(const Space& space, const Tensor& x, const Tensor& y, bool of_log) {
  using Wide = SumOf<T>;
  const T* const in = flat_view<Space, const T>(x).data();
  T* const out = flat_view<Space, T>(y).data();
  const std::int64_t width = x.size(1);
  for_each_row(
      "lockstep::softmax_device_forward", space, x.size(0), width / n,
      KOKKOS_LAMBDA(std::int64_t r, const Lanes<Space>& lanes) {
        const PackedRow<n> row(r * width, width);
        const auto [largest, sum] = largest_and_sum(lanes, row, in);
        const Wide m = largest, log_sum = std::log(sum), scale = Wide{1} / sum;
        row.set(
            lanes, false, out,
            [&](std::int64_t, Wide value) {
              return of_log ? value - m - log_sum : math::exp_or_zero(value - m) * scale;
            },
            in);
      });
}

template <int n, class T, class Space>
void softmax_backward_kernel(const Space& space, const Tensor& grad_y, const Tensor& y,
                             bool accumulate, const Tensor& grad_x) {
  using Wide = SumOf<T>;
  const T* const g = flat_view<Space, const T>(grad_y).data();
  const T* const from = flat_view<Space, const T>(y).data();
  T* const out = flat_view<Space, T>(grad_x).data();
  const std::int64_t width = y.size(1);
  for_each_row(
      "lockstep::softmax_device_backward", space, y.size(0), width / n,
      KOKKOS_LAMBDA(std::int64_t r, const Lanes<Space>& lanes) {
        const PackedRow<n> row(r * width, width);
        const Wide total = row.template sum<Wide>(
            lanes, [](std::int64_t, Wide slope, Wide value) { return slope * value; }, g, from);
        row.set(
            lanes, accumulate, out,
            [&](std::int64_t, Wide slope, Wide value) { return value * (slope - total); }, g, from);
      });
}

/// From x for 16 bits, else from y, whose largest value and log-sum count as 0 (softmax.hpp).
template <int n, class T, class Space>
void log_softmax_backward_kernel(const Space& space, const Tensor& grad_y, const Tensor& x_or_y,
                                 bool accumulate, const Tensor& grad_x) {
  using Wide = SumOf<T>;
  const T* const g = flat_view<Space, const T>(grad_y).data();
  const T* const from = flat_view<Space, const T>(x_or_y).data();
  T* const out = flat_view<Space, T>(grad_x).data();
  const std::int64_t width = x_or_y.size(1);
  for_each_row(
      "lockstep::log_softmax_device_backward", space, x_or_y.size(0), width / n,
      KOKKOS_LAMBDA(std::int64_t r, const Lanes<Space>& lanes) {
        const PackedRow<n> row(r * width, width);
        const Wide total = row.template sum<Wide>(
            lanes, [](std::int64_t, Wide slope) { return slope; }, g);
        LargestAndSum<Wide> of_x{Wide{0}, Wide{1}};
        if (sizeof(T) == 2) of_x = largest_and_sum(lanes, row, from);
        const Wide m = of_x.largest, log_sum = std::log(of_x.sum);
        row.set(
            lanes, accumulate, out,
            [&](std::int64_t, Wide slope, Wide value) {
              return slope - math::exp_or_zero(value - m - log_sum) * total;
            },
            g, from);
      });
}

}  // namespace

void softmax_device_forward(const Tensor& x, const Tensor& y) {
  dispatch_packed("softmax", x.size(1), {&x, &y}, [&]<int n, class T>(const auto& space) {
    softmax_forward_kernel<n, T>(space, x, y, false);
  });
}

void softmax_device_backward(const Tensor& grad_y, const Tensor& y, bool accumulate,
                             const Tensor& grad_x) {
  dispatch_packed("softmax", y.size(1), {&y, &grad_y, &grad_x},
                  [&]<int n, class T>(const auto& space) {
                    softmax_backward_kernel<n, T>(space, grad_y, y, accumulate, grad_x);
                  });
}

void log_softmax_device_forward(const Tensor& x, const Tensor& y) {
  dispatch_packed("log_softmax", x.size(1), {&x, &y}, [&]<int n, class T>(const auto& space) {
    softmax_forward_kernel<n, T>(space, x, y, true);
  });
}

void log_softmax_device_backward(const Tensor& grad_y, const Tensor& x_or_y, bool accumulate,
                                 const Tensor& grad_x) {
  dispatch_packed("log_softmax", x_or_y.size(1), {&x_or_y, &grad_y, &grad_x},
                  [&]<int n, class T>(const auto& space) {
                    log_softmax_backward_kernel<n, T>(space, grad_y, x_or_y, accumulate, grad_x);
                  });
}

}  // namespace lockstep::detail
