#include <lockstep/tensor/kernels/elementwise/elementwise.hpp>

#include <type_traits>

#include <lockstep/tensor/dispatch.hpp>
#include <lockstep/tensor/half.hpp>
#include <lockstep/tensor/kernels/for_each.hpp>

namespace lockstep {
namespace {

/// Calls f.template operator()<T>() with the element type of `dtype`.
template <class F>
void dispatch_element(DType dtype, F&& f) {
  switch (dtype) {
    case DType::f32:
      return f.template operator()<float>();
    case DType::f64:
      return f.template operator()<double>();
    case DType::i32:
      return f.template operator()<std::int32_t>();
    case DType::i64:
      return f.template operator()<std::int64_t>();
    case DType::u8:
      return f.template operator()<std::uint8_t>();
    case DType::boolean:
      return f.template operator()<bool>();
    case DType::bf16:
      return f.template operator()<BFloat16>();
    case DType::f16:
      return f.template operator()<Float16>();
  }
}

/// 16-bit numbers are converted by way of f32, which gives the same rounding. Only conversions
/// among f32, f64 and themselves have a loop of their own.
template <class From, class To>
constexpr bool converts_directly =
    (sizeof(From) != 2 && sizeof(To) != 2) || std::is_same_v<From, To> ||
    std::is_floating_point_v<From> || std::is_floating_point_v<To>;

void expect_same_shape(const char* operation, const Tensor& a, const Tensor& b) {
  if (a.shape() != b.shape()) {
    throw ShapeError(std::string(operation) + ": shapes " + to_string(a.shape()) + " and " +
                     to_string(b.shape()) + " differ");
  }
}

template <class T, class Space>
void fill_kernel(const Space& space, const Tensor& t, T value) {
  const auto out = flat_view<Space, T>(t);
  set_elements(
      "lockstep::fill", space, t.numel(), out, KOKKOS_LAMBDA() { return value; });
}

template <class From, class To, class Space>
void convert_kernel(const Space& space, const Tensor& x, const Tensor& y) {
  const auto in = flat_view<Space, const From>(x);
  const auto out = flat_view<Space, To>(y);
  set_elements(
      "lockstep::convert", space, x.numel(), out,
      KOKKOS_LAMBDA(From x_at) { return static_cast<To>(x_at); }, in);
}

template <class From, class To, class Space>
void add_scaled_kernel(const Space& space, const Tensor& x, SumOf<To> alpha, const Tensor& y) {
  using Wide = SumOf<To>;
  const auto in = flat_view<Space, const From>(x);
  const auto out = flat_view<Space, To>(y);
  set_elements(
      "lockstep::add_scaled", space, x.numel(), out,
      KOKKOS_LAMBDA(To before, From x_at) {
        return static_cast<To>(static_cast<Wide>(before) + alpha * static_cast<Wide>(x_at));
      },
      out, in);
}

template <class T, class Space>
void scale_kernel(const Space& space, const Tensor& x, SumOf<T> alpha) {
  const auto out = flat_view<Space, T>(x);
  set_elements(
      "lockstep::scale", space, x.numel(), out,
      KOKKOS_LAMBDA(T before) { return static_cast<T>(static_cast<SumOf<T>>(before) * alpha); },
      out);
}

template <class T, class Space>
void affine_kernel(const Space& space, const Tensor& t, std::uint64_t factor, std::uint64_t shift) {
  const auto out = flat_view<Space, T>(t);
  for_each(
      "lockstep::affine", space, t.numel(), KOKKOS_LAMBDA(std::int64_t i) {
        out(i) = static_cast<T>(factor * static_cast<std::uint64_t>(out(i)) + shift);
      });
}

/// Throws ShapeError unless the numbers of T reach so far.
template <class T>
void expect_holds(const Tensor& t, double value) {
  if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
    constexpr auto least = static_cast<double>(std::numeric_limits<T>::min()),
                   most = static_cast<double>(std::numeric_limits<T>::max());
    if ((value > least - 1 || value == least) && value < most + 1) return;
    throw ShapeError("a tensor " + describe(t) + " cannot hold " + std::to_string(value));
  }
}

}  // namespace

void fill(const Tensor& t, double value) {
  dispatch(current_stream(t.device()), [&](const auto& space) {
    dispatch_element(t.dtype(), [&]<class T>() {
      expect_holds<T>(t, value);
      fill_kernel<T>(space, t, static_cast<T>(value));
    });
  });
}

void convert(const Tensor& x, const Tensor& y) {
  expect_same_shape("convert", x, y);
  const auto by_way_of_f32 = [](DType half, DType other) {
    return is_half(half) && half != other && other != DType::f32 && other != DType::f64;
  };
  if (by_way_of_f32(x.dtype(), y.dtype()) || by_way_of_f32(y.dtype(), x.dtype()))
    return convert(x.to(DType::f32), y);
  dispatch(current_stream(x.device()), [&](const auto& space) {
    dispatch_element(x.dtype(), [&]<class From>() {
      dispatch_element(y.dtype(), [&]<class To>() {
        if constexpr (converts_directly<From, To>) convert_kernel<From, To>(space, x, y);
      });
    });
  });
}

void add_scaled(const Tensor& x, double alpha, const Tensor& y) {
  expect_same_shape("add_scaled", x, y);
  dispatch(current_stream(x.device()), [&](const auto& space) {
    const auto run = [&]<class From, class To>() {
      add_scaled_kernel<From, To>(space, x, static_cast<SumOf<To>>(alpha), y);
    };
    dispatch_stored(x.dtype(), "add_scaled", [&]<class From>() {
      if constexpr (sizeof(From) == 2) {
        if (y.dtype() == DType::f32) return run.template operator()<From, float>();
      } else if constexpr (std::is_same_v<From, float>) {
        if (y.dtype() == DType::bf16) return run.template operator()<From, BFloat16>();
        if (y.dtype() == DType::f16) return run.template operator()<From, Float16>();
      }
      run.template operator()<From, From>();
    });
  });
}

void scale(const Tensor& x, double alpha) {
  dispatch(current_stream(x.device()), [&](const auto& space) {
    dispatch_stored(x.dtype(), "scale",
                    [&]<class T>() { scale_kernel<T>(space, x, static_cast<SumOf<T>>(alpha)); });
  });
}

void affine_of_whole(const Tensor& t, std::uint64_t factor, std::uint64_t shift) {
  dispatch(current_stream(t.device()), [&](const auto& space) {
    dispatch_element(t.dtype(), [&]<class T>() {
      if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
        affine_kernel<T>(space, t, factor, shift);
      }
    });
  });
}

}  // namespace lockstep
