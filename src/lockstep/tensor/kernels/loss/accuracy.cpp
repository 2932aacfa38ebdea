#include <lockstep/tensor/kernels/loss/accuracy.hpp>

#include <lockstep/tensor/dispatch.hpp>
#include <lockstep/tensor/kernels/for_each.hpp>

namespace lockstep {
namespace {

template <class T, class Space>
void count_correct_kernel(const Space& space, const Tensor& scores, const Tensor& target,
                          std::int64_t k, const Tensor& count) {
  const auto x = view<Space, const T, 2>(scores);                  // (samples, classes)
  const auto wanted = view<Space, const std::int64_t, 1>(target);  // (samples)
  const Tensor hits = Tensor::empty({scores.size(0)}, DType::i64, scores.device());
  const auto is_hit = view<Space, std::int64_t, 1>(hits);  // (samples)
  const auto out = view<Space, std::int64_t, 1>(count);    // (1)
  const std::int64_t samples = scores.size(0), classes = scores.size(1);
  for_each_row(
      "lockstep::find_correct", space, samples, classes,
      KOKKOS_LAMBDA(std::int64_t n, const Lanes<Space>& lanes) {
        const std::int64_t t = wanted(n);
        const bool is_class = t >= 0 && t < classes;
        const T score = is_class ? x(n, t) : T{0};
        const std::int64_t ahead = lanes.sum([&](std::int64_t c) {
          // This form ranks NaN first.
          const bool behind = c < t ? x(n, c) < score : x(n, c) <= score;
          return std::int64_t{behind || c == t ? 0 : 1};
        });
        lanes.once([&] { is_hit(n) = is_class && score == score && ahead < k ? 1 : 0; });
      });
  for_each_row(
      "lockstep::count_correct", space, 1, samples,
      KOKKOS_LAMBDA(std::int64_t, const Lanes<Space>& lanes) {
        const std::int64_t correct = lanes.sum([&](std::int64_t n) { return is_hit(n); });
        lanes.once([&] { out(0) = correct; });
      });
}

template <class T, class Space>
void errors_kernel(const Space& space, const Tensor& y, const Tensor& t, const Tensor& errors) {
  const auto found = flat_view<Space, const T>(y);
  const auto wanted = flat_view<Space, const T>(t);
  const auto out = view<Space, double, 1>(errors);  // (3): squares, absolute, largest
  for_each_row(
      "lockstep::errors_of", space, 1, y.numel(),
      KOKKOS_LAMBDA(std::int64_t, const Lanes<Space>& lanes) {
        const auto error = [&](std::int64_t i) {
          return static_cast<double>(found(i)) - static_cast<double>(wanted(i));
        };
        const double squares = lanes.sum([&](std::int64_t i) { return error(i) * error(i); });
        const double absolute = lanes.sum([&](std::int64_t i) { return std::abs(error(i)); });
        const double largest = lanes.max(0.0, [&](std::int64_t i) {
          const double size = std::abs(error(i));
          return size >= 0 ? size : HUGE_VAL;  // a maximum would lose a NaN
        });
        lanes.once([&] {
          out(0) = squares;
          out(1) = absolute;
          out(2) = largest;
        });
      });
}

}  // namespace

std::int64_t count_correct(const Tensor& scores, const Tensor& target, std::int64_t k) {
  if (scores.dims() != 2 || target.dims() != 1 || scores.size(0) != target.size(0)) {
    throw ShapeError("count_correct takes scores [N, C] and targets [N], not " + describe(scores) +
                     " and " + describe(target));
  }
  const Tensor count = Tensor::zeros({1}, DType::i64, scores.device());
  dispatch(current_stream(scores.device()), [&](const auto& space) {
    dispatch_floating(scores.dtype(), "count_correct",
                      [&]<class T>() { count_correct_kernel<T>(space, scores, target, k, count); });
  });
  return static_cast<std::int64_t>(count.item());
}

Errors errors_of(const Tensor& y, const Tensor& t) {
  if (y.shape() != t.shape() || y.dtype() != t.dtype()) {
    throw ShapeError("errors_of compares tensors of one shape and dtype, not " + describe(y) +
                     " and " + describe(t));
  }
  const Tensor errors = Tensor::zeros({3}, DType::f64, y.device());
  dispatch(current_stream(y.device()), [&](const auto& space) {
    dispatch_floating(y.dtype(), "errors_of",
                      [&]<class T>() { errors_kernel<T>(space, y, t, errors); });
  });
  return {errors.slice(0, 1).item(), errors.slice(1, 2).item(), errors.slice(2, 3).item()};
}

}  // namespace lockstep
