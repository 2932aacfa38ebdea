#include <lockstep/comm/kernels/combine.hpp>

#include <lockstep/tensor/dispatch.hpp>
#include <lockstep/tensor/kernels/for_each.hpp>

namespace lockstep {
namespace {

template <class T>
struct Add {
  KOKKOS_FUNCTION T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>) {
      using Wrapping = std::make_unsigned_t<T>;
      return static_cast<T>(static_cast<Wrapping>(a) + static_cast<Wrapping>(b));
    } else {
      return a + b;
    }
  }
};

template <class T>
struct Least {
  KOKKOS_FUNCTION T operator()(T a, T b) const { return b < a ? b : a; }
};

template <class T>
struct Greatest {
  KOKKOS_FUNCTION T operator()(T a, T b) const { return a < b ? b : a; }
};

template <class T, class Combine, class Space>
void combine_kernel(const Space& space, const Tensor& x, const Tensor& y, Combine combine) {
  const auto in = flat_view<Space, const T>(x);
  const auto out = flat_view<Space, T>(y);
  for_each(
      "lockstep::combine", space, x.numel(),
      KOKKOS_LAMBDA(std::int64_t i) { out(i) = combine(out(i), in(i)); });
}

template <class T, class Space>
void combine_as(const Space& space, ReduceOp op, const Tensor& x, const Tensor& y) {
  switch (op) {
    case ReduceOp::sum:
    case ReduceOp::avg:
      return combine_kernel<T>(space, x, y, Add<T>());
    case ReduceOp::min:
      return combine_kernel<T>(space, x, y, Least<T>());
    case ReduceOp::max:
      return combine_kernel<T>(space, x, y, Greatest<T>());
  }
}

}  // namespace

void combine(ReduceOp op, const Tensor& x, const Tensor& y) {
  dispatch(current_stream(y.device()), [&](const auto& space) {
    switch (y.dtype()) {
      case DType::f32:
        return combine_as<float>(space, op, x, y);
      case DType::f64:
        return combine_as<double>(space, op, x, y);
      case DType::i32:
        return combine_as<std::int32_t>(space, op, x, y);
      case DType::i64:
        return combine_as<std::int64_t>(space, op, x, y);
      case DType::u8:
        return combine_as<std::uint8_t>(space, op, x, y);
      default:
        throw ShapeError("combine does not take " + std::string(name_of(y.dtype())));
    }
  });
}

}  // namespace lockstep
