#include <lockstep/tensor/kernels/loss/regression_loss.hpp>

#include <numbers>
#include <string>

#include <lockstep/tensor/dispatch.hpp>
#include <lockstep/tensor/kernels/elementwise/math_functions.hpp>
#include <lockstep/tensor/kernels/for_each.hpp>

namespace lockstep {
namespace {

template <class T>
struct SquaredError {
  explicit SquaredError(const ElementLossFunction&) {}
  KOKKOS_FUNCTION T loss(T x, T t) const { return (x - t) * (x - t); }
  KOKKOS_FUNCTION T slope(T x, T t) const { return T{2} * (x - t); }
};

template <class T>
struct AbsoluteError {
  explicit AbsoluteError(const ElementLossFunction&) {}
  KOKKOS_FUNCTION T loss(T x, T t) const { return std::fabs(x - t); }
  KOKKOS_FUNCTION T slope(T x, T t) const {
    const T d = x - t;
    return d > T{0} ? T{1} : (d < T{0} ? T{-1} : d);  // 0 at 0; NaN at NaN
  }
};

/// Both kinds: d^2 / (2 divisor) within `limit`, linear beyond.
template <class T, bool smooth>
struct Huber {
  explicit Huber(const ElementLossFunction& f)
      : limit(static_cast<T>(f.a)),
        divisor(smooth ? limit : T{1}),
        steepness(smooth ? T{1} : limit) {}
  KOKKOS_FUNCTION T loss(T x, T t) const {
    const T d = std::fabs(x - t);
    return d < limit ? T{0.5} * d * (d / divisor) : steepness * (d - T{0.5} * limit);
  }
  KOKKOS_FUNCTION T slope(T x, T t) const {
    const T d = x - t, straight = d < T{0} ? -steepness : steepness;
    const T beyond = d == d ? straight : d;
    return std::fabs(d) < limit ? d / divisor : (d == T{0} ? T{0} : beyond);
  }
  T limit, divisor, steepness;
};
template <class T>
using SmoothL1 = Huber<T, true>;
template <class T>
using PlainHuber = Huber<T, false>;

template <class T>
struct ProbabilityCrossEntropy {
  explicit ProbabilityCrossEntropy(const ElementLossFunction&) {}
  KOKKOS_FUNCTION static T bounded(T logarithm) {
    return logarithm < T{-100} ? T{-100} : logarithm;
  }
  KOKKOS_FUNCTION T loss(T x, T t) const {
    const T small = x < T{0.5} ? x : T{0.5};  // above it, 1 - x is exact
    const T of_rest = x < T{0.5} ? math::log1p(-small) : math::log(T{1} - x);
    return -(t * bounded(math::log(x)) + (T{1} - t) * bounded(of_rest));
  }
  KOKKOS_FUNCTION T slope(T x, T t) const {
    const T spread = (T{1} - x) * x, least = static_cast<T>(1e-12);
    return (x - t) / (spread < least ? least : spread);
  }
};

template <class T>
struct BinaryCrossEntropy {
  explicit BinaryCrossEntropy(const ElementLossFunction&) {}
  KOKKOS_FUNCTION static T value(T x, T t) {
    return (x < T{0} ? T{0} : x) - x * t + math::log1p(math::exp(-std::fabs(x)));
  }
  KOKKOS_FUNCTION T loss(T x, T t) const { return value(x, t); }
  KOKKOS_FUNCTION T slope(T x, T t) const {  // sigmoid(x) - t, accurate where it is small
    const auto s = math::sigmoid_and_complement(x);
    return s.value * (T{1} - t) - s.complement * t;
  }
};

template <class T>
struct KlDiv {
  explicit KlDiv(const ElementLossFunction&) {}
  KOKKOS_FUNCTION T loss(T x, T t) const {
    const T entropy = t * math::log(t);
    return (t == T{0} ? T{0} : entropy) - t * x;
  }
  KOKKOS_FUNCTION T slope(T, T t) const { return -t; }
};

template <class T>
struct KlDivLog {
  explicit KlDivLog(const ElementLossFunction&) {}
  KOKKOS_FUNCTION T loss(T x, T t) const { return math::exp(t) * (t - x); }
  KOKKOS_FUNCTION T slope(T, T t) const { return -math::exp(t); }
};

template <class T, bool of_log>
struct Poisson {
  explicit Poisson(const ElementLossFunction& f)
      : full(f.a != 0.0),
        eps(static_cast<T>(f.b)),
        twice_pi(static_cast<T>(2 * std::numbers::pi)) {}
  KOKKOS_FUNCTION T loss(T x, T t) const {
    const T constant = t * math::log(t) - t + T{0.5} * math::log(twice_pi * t);
    const T missing = full && t > T{1} ? constant : T{0};
    return (of_log ? math::exp(x) - t * x : x - t * math::log(x + eps)) + missing;
  }
  KOKKOS_FUNCTION T slope(T x, T t) const {
    return of_log ? math::exp(x) - t : T{1} - t / (x + eps);
  }
  bool full;
  T eps, twice_pi;
};
template <class T>
using PoissonOfLog = Poisson<T, true>;
template <class T>
using PlainPoisson = Poisson<T, false>;

template <class T>
struct Focal {
  explicit Focal(const ElementLossFunction& f)
      : to_gamma(f.b), to_less(f.b - 1.0), gamma(static_cast<T>(f.b)) {
    of_one = static_cast<T>(f.a < 0.0 ? 1.0 : f.a);
    of_zero = static_cast<T>(f.a < 0.0 ? 1.0 : 1.0 - f.a);
  }
  /// 1 - p, where p is the probability of the target.
  KOKKOS_FUNCTION static T missed(T x, T t) {
    const auto s = math::sigmoid_and_complement(x);
    return s.value * (T{1} - t) + s.complement * t;
  }
  KOKKOS_FUNCTION T weight(T t) const { return of_one * t + of_zero * (T{1} - t); }
  KOKKOS_FUNCTION T loss(T x, T t) const {
    return weight(t) * BinaryCrossEntropy<T>::value(x, t) * to_gamma(missed(x, t));
  }
  KOKKOS_FUNCTION T slope(T x, T t) const {
    const T q = missed(x, t);
    const auto s = math::sigmoid_and_complement(x);
    const T change = s.value * s.complement * (T{1} - T{2} * t);
    const T bent = gamma == T{0} || q == T{0} ? T{0} : gamma * to_less(q) * change;
    return weight(t) * ((s.value - t) * to_gamma(q) + BinaryCrossEntropy<T>::value(x, t) * bent);
  }
  math::Power<T> to_gamma, to_less;
  T gamma, of_one, of_zero;
};

template <class T, class Loss, class Space>
void forward_kernel(const Space& space, const Loss& f, const Tensor& x, const Tensor& target,
                    const Tensor& losses) {
  const auto in = flat_view<Space, const T>(x), t = flat_view<Space, const T>(target);
  const auto out = flat_view<Space, T>(losses);
  for_each_element(
      "lockstep::regression_loss_forward", space, x.numel(),
      KOKKOS_LAMBDA(std::int64_t i) { out(i) = f.loss(in(i), t(i)); });
}

template <class T, class Loss, class Space>
void backward_kernel(const Space& space, const Loss& f, const Tensor& grad_loss, T divisor,
                     const Tensor& x, const Tensor& target, bool accumulate, const Tensor& grad_x) {
  const auto g = flat_view<Space, const T>(grad_loss);
  const auto in = flat_view<Space, const T>(x), t = flat_view<Space, const T>(target);
  const auto result = flat_view<Space, T>(grad_x);
  const std::int64_t step = grad_loss.numel() == 1 ? 0 : 1;
  // Two loops: a branch inside keeps GCC 12 from vectorising the longer ones.
  if (accumulate) {
    for_each_element(
        "lockstep::regression_loss_backward", space, x.numel(), KOKKOS_LAMBDA(std::int64_t i) {
          result(i) += f.slope(in(i), t(i)) * (g(i * step) / divisor);
        });
  } else {
    for_each_element(
        "lockstep::regression_loss_backward", space, x.numel(), KOKKOS_LAMBDA(std::int64_t i) {
          result(i) = f.slope(in(i), t(i)) * (g(i * step) / divisor);
        });
  }
}

struct Row {
  const char* name;
  void (*forward)(const ElementLossFunction& f, const Tensor& x, const Tensor& target,
                  const Tensor& losses);
  void (*backward)(const ElementLossFunction& f, const Tensor& grad_loss, double divisor,
                   const Tensor& x, const Tensor& target, bool accumulate, const Tensor& grad_x);
};

template <template <class> class Loss>
void forward(const ElementLossFunction& f, const Tensor& x, const Tensor& target,
             const Tensor& losses) {
  dispatch(current_stream(x.device()), [&](const auto& space) {
    dispatch_floating(x.dtype(), name_of(f.kind),
                      [&]<class T>() { forward_kernel<T>(space, Loss<T>(f), x, target, losses); });
  });
}

template <template <class> class Loss>
void backward(const ElementLossFunction& f, const Tensor& grad_loss, double divisor,
              const Tensor& x, const Tensor& target, bool accumulate, const Tensor& grad_x) {
  dispatch(current_stream(x.device()), [&](const auto& space) {
    dispatch_floating(x.dtype(), name_of(f.kind), [&]<class T>() {
      backward_kernel<T>(space, Loss<T>(f), grad_loss, static_cast<T>(divisor), x, target,
                         accumulate, grad_x);
    });
  });
}

template <template <class> class Loss>
constexpr Row row_of(const char* name) {
  return {name, forward<Loss>, backward<Loss>};
}

Row row_of(ElementLoss kind) noexcept {
  switch (kind) {
    case ElementLoss::mse:
      break;
    case ElementLoss::l1:
      return row_of<AbsoluteError>("l1_loss");
    case ElementLoss::smooth_l1:
      return row_of<SmoothL1>("smooth_l1_loss");
    case ElementLoss::huber:
      return row_of<PlainHuber>("huber_loss");
    case ElementLoss::bce:
      return row_of<ProbabilityCrossEntropy>("binary_cross_entropy");
    case ElementLoss::bce_with_logits:
      return row_of<BinaryCrossEntropy>("binary_cross_entropy_with_logits");
    case ElementLoss::kl_div:
      return row_of<KlDiv>("kl_div");
    case ElementLoss::kl_div_log:
      return row_of<KlDivLog>("kl_div");
    case ElementLoss::poisson_nll_log:
      return row_of<PoissonOfLog>("poisson_nll_loss");
    case ElementLoss::poisson_nll:
      return row_of<PlainPoisson>("poisson_nll_loss");
    case ElementLoss::focal:
      return row_of<Focal>("sigmoid_focal_loss");
  }
  return row_of<SquaredError>("mse_loss");
}

}  // namespace

const char* name_of(ElementLoss kind) noexcept { return row_of(kind).name; }

void check_regression(const char* operation, const Tensor& x, const Tensor& target) {
  if (x.shape() != target.shape() || x.dtype() != target.dtype()) {
    throw ShapeError(std::string(operation) + " of x " + describe(x) + " and target " +
                     describe(target) + ": they have one shape and dtype");
  }
}

void element_loss_forward(const ElementLossFunction& f, const Tensor& x, const Tensor& target,
                          const Tensor& losses) {
  row_of(f.kind).forward(f, x, target, losses);
}

void element_loss_backward(const ElementLossFunction& f, const Tensor& grad_loss, double divisor,
                           const Tensor& x, const Tensor& target, bool accumulate,
                           const Tensor& grad_x) {
  row_of(f.kind).backward(f, grad_loss, divisor, x, target, accumulate, grad_x);
}

}  // namespace lockstep
