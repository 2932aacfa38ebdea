#include <lockstep/tensor/kernels/loss/loss.hpp>

#include <limits>

#include <lockstep/tensor/dispatch.hpp>
#include <lockstep/tensor/kernels/data/index_check.hpp>
#include <lockstep/tensor/kernels/for_each.hpp>
#include <lockstep/tensor/kernels/loss/loss_rows.hpp>
#include <lockstep/tensor/sum_dtype.hpp>

namespace lockstep {
namespace {

using detail::by_class;
using detail::ClassWeight;
using detail::RowGradient;

/// The shape of a target for x[N,C, ...]: [N, ...].
Shape target_shape(const Shape& x) {
  std::array<std::int64_t, Shape::max_dims> extents{};
  int dims = 0;
  for (int d = 0; d < x.dims(); ++d) {
    if (d != 1) extents[static_cast<std::size_t>(dims++)] = x[d];
  }
  return Shape(std::span<const std::int64_t>(extents.data(), static_cast<std::size_t>(dims)));
}

std::string no_class(const IndexCheck& check, std::int64_t row, std::int64_t target) {
  return std::string(check.operation) + ": target " + std::to_string(target) + " in row " +
         std::to_string(row) + " is not a class: there are " + std::to_string(check.count) +
         ", counted from 0, and ignore_index is " + std::to_string(check.ignored);
}

template <class T, class Space>
void mask_kernel(const Space& space, const Tensor& x, std::int64_t first) {
  const auto out = view<Space, T, 2>(x);
  const std::int64_t columns = x.size(1) - first;
  for_each(
      "lockstep::mask_columns", space, x.size(0) * columns, KOKKOS_LAMBDA(std::int64_t i) {
        out(i / columns, first + i % columns) =
            static_cast<T>(-std::numeric_limits<SumOf<T>>::infinity());
      });
}

template <class T, class Space>
void forward_kernel(const Space& space, const Tensor& x, const Tensor& target,
                    const LossOptions& options, const Tensor& losses) {
  using Wide = SumOf<T>;
  const auto in = view<Space, const T, 3>(by_class(x));  // (samples, classes, positions)
  const auto t = flat_view<Space, const std::int64_t>(target);
  const auto out = flat_view<Space, Wide>(losses);
  const ClassWeight<Wide, Space> weight(options.class_weight);
  const std::int64_t positions = static_cast<std::int64_t>(in.extent(2));
  const std::int64_t ignored = options.ignore_index;
  for_each(
      "lockstep::nll_loss_forward", space, target.numel(), KOKKOS_LAMBDA(std::int64_t r) {
        const std::int64_t c = t(r);
        out(r) = c == ignored ? Wide{0}
                              : -weight(c) * static_cast<Wide>(in(r / positions, c, r % positions));
      });
}

template <class T, class Space>
void reduce_kernel(const Space& space, const Tensor& losses, const Tensor& target,
                   const LossOptions& options, const Tensor& loss, const Tensor& divisor) {
  const auto in = flat_view<Space, const T>(losses);
  const auto t = flat_view<Space, const std::int64_t>(target);
  const auto out = flat_view<Space, T>(loss);
  const auto divided_by = flat_view<Space, T>(divisor);
  const ClassWeight<T, Space> weight(options.class_weight);
  const bool mean = options.reduction == Reduction::mean;
  const std::int64_t ignored = options.ignore_index;
  for_each_row(
      "lockstep::reduce_loss", space, 1, target.numel(),
      KOKKOS_LAMBDA(std::int64_t, const Lanes<Space>& lanes) {
        const T total = lanes.sum([&](std::int64_t r) { return in(r); });
        const T weights =
            lanes.sum([&](std::int64_t r) { return t(r) == ignored ? T{0} : weight(t(r)); });
        lanes.once([&] {
          divided_by(0) = mean ? weights : T{1};
          out(0) = mean ? total / weights : total;
        });
      });
}

/// An element of a gradient, from the gradient of the sum of losses.
template <class T, class Space>
struct LossScale {
  using View = decltype(flat_view<Space, const T>(Tensor()));
  View grad_loss, divisor;

  KOKKOS_FUNCTION T operator()(T of_sum) const {
    return of_sum == T{0} ? T{0} : of_sum * (grad_loss(0) / divisor(0));
  }
};

template <class T, class Space>
void backward_kernel(const Space& space, const Tensor& grad_loss, const Tensor& divisor,
                     const Tensor& target, const LossOptions& options, bool accumulate,
                     const Tensor& grad_x) {
  using Wide = SumOf<T>;
  const auto result = view<Space, T, 3>(by_class(grad_x));  // (samples, classes, positions)
  const auto t = flat_view<Space, const std::int64_t>(target);
  const RowGradient<Wide, Space> grad(grad_loss, divisor, options.reduction);
  const ClassWeight<Wide, Space> weight(options.class_weight);
  const std::int64_t classes = static_cast<std::int64_t>(result.extent(1));
  const std::int64_t positions = static_cast<std::int64_t>(result.extent(2));
  const std::int64_t ignored = options.ignore_index;
  for_each_row(
      "lockstep::nll_loss_backward", space, target.numel(), classes,
      KOKKOS_LAMBDA(std::int64_t r, const Lanes<Space>& lanes) {
        const std::int64_t n = r / positions, i = r % positions, chosen = t(r);
        const Wide at_chosen = chosen == ignored ? Wide{0} : -weight(chosen) * grad(r);
        lanes.each([&](std::int64_t c) {
          const Wide before = accumulate ? static_cast<Wide>(result(n, c, i)) : Wide{0};
          result(n, c, i) = static_cast<T>(before + (c == chosen ? at_chosen : Wide{0}));
        });
      });
}

}  // namespace

void check_options(const char* operation, const Tensor& x, const LossOptions& options) {
  const auto& weight = options.class_weight;
  if (weight.defined() &&
      (weight.shape() != Shape{x.size(1)} || weight.dtype() != sum_dtype(x.dtype()))) {
    throw ShapeError(std::string(operation) + ": class_weight " + describe(weight) +
                     " does not fit x " + describe(x));
  }
  if (!(options.label_smoothing >= 0.0 && options.label_smoothing <= 1.0)) {
    throw Error(std::string(operation) + ": label_smoothing is " +
                std::to_string(options.label_smoothing) + ", which is not between 0 and 1");
  }
}

Tensor right_targets(const char* operation, const Tensor& target, std::int64_t classes,
                     std::int64_t ignore_index) {
  return right_indices(
      {.count = classes, .ignored = ignore_index, .sentence = no_class, .operation = operation},
      target, ignore_index);
}

void check_loss(const char* operation, const Tensor& x, const Tensor& target,
                const LossOptions& options) {
  if (x.dims() < 2 || target.shape() != target_shape(x.shape())) {
    throw ShapeError(std::string(operation) + " of x " + to_string(x.shape()) + " and target " +
                     to_string(target.shape()) + ": x must be [N, C, ...] and the target [N, ...]");
  }
  if (target.dtype() != DType::i64) {
    throw ShapeError(std::string(operation) + ": the target must be i64, not " + describe(target));
  }
  check_options(operation, x, options);
}

void mask_columns(const Tensor& x, std::int64_t first) {
  if (x.size(0) == 0 || x.size(1) == first) return;
  dispatch(current_stream(x.device()), [&](const auto& space) {
    dispatch_stored(x.dtype(), "mask_columns", [&]<class T>() { mask_kernel<T>(space, x, first); });
  });
}

void nll_loss_forward(const Tensor& x, const Tensor& target, const LossOptions& options,
                      const Tensor& losses) {
  dispatch(current_stream(x.device()), [&](const auto& space) {
    dispatch_stored(x.dtype(), "nll_loss",
                    [&]<class T>() { forward_kernel<T>(space, x, target, options, losses); });
  });
}

void reduce_loss(const Tensor& losses, const Tensor& target, const LossOptions& options,
                 const Tensor& loss, const Tensor& divisor) {
  dispatch(current_stream(losses.device()), [&](const auto& space) {
    dispatch_floating(losses.dtype(), "reduce_loss", [&]<class T>() {
      reduce_kernel<T>(space, losses, target, options, loss, divisor);
    });
  });
}

void scale_loss_gradient(const Tensor& of_sum, const Tensor& grad_loss, const Tensor& divisor,
                         bool accumulate, const Tensor& grad) {
  dispatch(current_stream(grad.device()), [&](const auto& space) {
    using Space = std::remove_cvref_t<decltype(space)>;
    dispatch_stored(grad.dtype(), "loss", [&]<class T>() {
      using Wide = SumOf<T>;
      const LossScale<Wide, Space> f{flat_view<Space, const Wide>(grad_loss),
                                     flat_view<Space, const Wide>(divisor)};
      set_or_add_elements("lockstep::scale_loss_gradient", space, grad.numel(), accumulate,
                          flat_view<Space, T>(grad), f, flat_view<Space, const Wide>(of_sum));
    });
  });
}

void nll_loss_backward(const Tensor& grad_loss, const Tensor& divisor, const Tensor& target,
                       const LossOptions& options, bool accumulate, const Tensor& grad_x) {
  dispatch(current_stream(grad_x.device()), [&](const auto& space) {
    dispatch_stored(grad_x.dtype(), "nll_loss", [&]<class T>() {
      backward_kernel<T>(space, grad_loss, divisor, target, options, accumulate, grad_x);
    });
  });
}

}  // namespace lockstep
