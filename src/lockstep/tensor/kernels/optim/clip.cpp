#include <lockstep/tensor/kernels/optim/clip.hpp>

#include <cmath>

#include <lockstep/tensor/dispatch.hpp>
#include <lockstep/tensor/kernels/reduce/ordered_sum.hpp>
#include <lockstep/tensor/kernels/reduce/vector_norm.hpp>

namespace lockstep {
namespace {

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
  const double squares = sum_of_squares(x);
  const bool lossless = x.dtype() != DType::f64 || !(squares < 1e-280 || squares > 1e280);
  if (lossless || x.numel() == 0) return std::sqrt(squares);
  const Tensor norm = Tensor::empty({1}, x.dtype(), x.device());
  vector_norm_forward(x.reshape({1, x.numel()}), 2.0, norm);
  return norm.item();
}

void clamp(const Tensor& x, double limit) {
  dispatch(current_stream(x.device()), [&](const auto& space) {
    dispatch_floating(x.dtype(), "clamp",
                      [&]<class T>() { clamp_kernel<T>(space, x, static_cast<T>(limit)); });
  });
}

}  // namespace lockstep
