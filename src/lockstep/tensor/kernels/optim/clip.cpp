#include <lockstep/tensor/kernels/optim/clip.hpp>

#include <cmath>

#include <lockstep/tensor/dispatch.hpp>
#include <lockstep/tensor/kernels/reduce/ordered_sum.hpp>
#include <lockstep/tensor/kernels/reduce/vector_norm.hpp>

namespace lockstep {
namespace {

/// True if a sum of squares of doubles may have overflowed or underflowed.
KOKKOS_INLINE_FUNCTION bool is_extreme(double squares) {
  return squares < 1e-280 || squares > 1e280;
}

/// True if the norm may have to be computed by scaling. The squares on a device are not known yet,
/// so there the answer is yes.
bool may_be_extreme(const Tensor& x, const Tensor& squares) {
  if (x.dtype() != DType::f64 || x.numel() == 0) return false;
  return x.device().type != DeviceType::host || is_extreme(squares.item());
}

template <class Space>
void norm_kernel(const Space& space, const Tensor& squares, const Tensor& norms,
                 const Tensor& norm) {
  const auto of_each = flat_view<Space, const double>(squares);
  const auto others = flat_view<Space, const double>(norms.defined() ? norms : squares);
  const auto out = flat_view<Space, double>(norm);
  const bool has_others = norms.defined();
  const std::int64_t n = squares.numel();
  for_each(
      "lockstep::norm_of_all", space, 1, KOKKOS_LAMBDA(std::int64_t) {
        double sum = 0.0;
        for (std::int64_t i = 0; i < n; ++i) sum += of_each(i);
        double result = std::sqrt(sum);
        if (has_others && is_extreme(sum)) {
          result = 0.0;
          for (std::int64_t i = 0; i < n; ++i) result = std::hypot(result, others(i));
        }
        out(0) = result;
      });
}

template <class Space>
void clip_factor_kernel(const Space& space, const Tensor& norm, double max_norm,
                        const Tensor& factor) {
  const auto in = flat_view<Space, const double>(norm);
  const auto out = flat_view<Space, double>(factor);
  for_each(
      "lockstep::clip_factor", space, 1, KOKKOS_LAMBDA(std::int64_t i) {
        const double wanted = max_norm / (in(i) + 1e-6);
        out(i) = wanted >= 1.0 ? 1.0 : wanted;  // keeps a NaN
      });
}

template <class T, class Space>
void clamp_kernel(const Space& space, const Tensor& x, T limit) {
  const auto out = flat_view<Space, T>(x);
  for_each(
      "lockstep::clamp", space, x.numel(), KOKKOS_LAMBDA(std::int64_t i) {
        const T value = out(i);
        out(i) = value > limit ? limit : value < -limit ? -limit : value;
      });
}

}  // namespace

double sum_of_squares(const Tensor& x) {
  const Tensor sum = Tensor::empty({1}, DType::f64, x.device());
  sum_of_squares(x, sum);
  return sum.item();
}

void sum_of_squares(const Tensor& x, const Tensor& sum) {
  dispatch(current_stream(x.device()), [&]<class Space>(const Space& space) {
    dispatch_floating(x.dtype(), "sum_of_squares", [&]<class T>() {
      const Squares squares{flat_view<Space, const T>(x)};
      ordered_sum_into(sum, "lockstep::sum_of_squares", space, x.numel(), squares);
    });
  });
}

double euclidean_norm(const Tensor& x) {
  const Tensor norm = Tensor::empty({1}, DType::f64, x.device());
  euclidean_norm(x, norm);
  return norm.item();
}

void euclidean_norm(const Tensor& x, const Tensor& norm) {
  const Tensor squares = Tensor::empty({1}, DType::f64, x.device());
  sum_of_squares(x, squares);
  Tensor scaled;
  if (may_be_extreme(x, squares)) {
    scaled = Tensor::empty({1}, DType::f64, x.device());
    vector_norm_forward(x.reshape({1, x.numel()}), 2.0, scaled);
  }
  norm_of_all(squares, scaled, norm);
}

void norm_of_all(const Tensor& squares, const Tensor& norms, const Tensor& norm) {
  dispatch(current_stream(norm.device()),
           [&](const auto& space) { norm_kernel(space, squares, norms, norm); });
}

void norm_clip_factor(const Tensor& norm, double max_norm, const Tensor& factor) {
  dispatch(current_stream(norm.device()),
           [&](const auto& space) { clip_factor_kernel(space, norm, max_norm, factor); });
}

void clamp(const Tensor& x, double limit) {
  dispatch(current_stream(x.device()), [&](const auto& space) {
    dispatch_floating(x.dtype(), "clamp",
                      [&]<class T>() { clamp_kernel<T>(space, x, static_cast<T>(limit)); });
  });
}

}  // namespace lockstep
