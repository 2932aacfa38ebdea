#include <lockstep/tensor/kernels/reduce/not_finite.hpp>

#include <lockstep/tensor/dispatch.hpp>
#include <lockstep/tensor/finite.hpp>
#include <lockstep/tensor/kernels/for_each.hpp>

namespace lockstep {
namespace {

constexpr std::int64_t look = 4096;  // elements at a time: a second pass finds them in cache

std::int64_t looks_at(const Tensor& x) { return (x.numel() + look - 1) / look; }

/// True if one of the elements of x from `begin` on, as many as there are lanes, is not finite.
template <class View, class Space>
KOKKOS_INLINE_FUNCTION bool is_any_not_finite(const View& x, std::int64_t begin,
                                              const Lanes<Space>& lanes) {
  return lanes.max(0.0F, [&](std::int64_t c) {
    const auto value = static_cast<float>(x(begin + c) - x(begin + c));  // 0, or NaN
    return value == 0.0F ? 0.0F : 1.0F;
  }) != 0.0F;
}

template <class T, class Space>
void find_not_finite_kernel(const Space& space, const Tensor& x, const Tensor& found) {
  const auto in = flat_view<Space, const T>(x);
  const auto flag = flat_view<Space, float>(found);
  const std::int64_t n = x.numel();
  for_each_row(
      "lockstep::find_not_finite", space, looks_at(x), look,
      KOKKOS_LAMBDA(std::int64_t r, const Lanes<Space>& lanes) {
        const std::int64_t begin = r * look, rest = n - begin;
        const bool any = is_any_not_finite(in, begin, lanes.of_width(rest < look ? rest : look));
        lanes.once([&] {
          if (any) flag(0) = 1.0F;
        });
      });
}

template <class T, class Space>
void unscale_kernel(const Space& space, const Tensor& g, const Tensor& scale, const Tensor& found) {
  const auto out = flat_view<Space, T>(g);
  const auto by = flat_view<Space, const float>(scale);
  const auto flag = flat_view<Space, float>(found);
  const std::int64_t n = g.numel();
  for_each_row(
      "lockstep::unscale", space, looks_at(g), look,
      KOKKOS_LAMBDA(std::int64_t r, const Lanes<Space>& lanes) {
        const std::int64_t begin = r * look, rest = n - begin;
        const Lanes<Space> part = lanes.of_width(rest < look ? rest : look);
        const T inverse = static_cast<T>(1.0 / static_cast<double>(by(0)));
        part.each([&](std::int64_t c) { out(begin + c) *= inverse; });
        const bool any = is_any_not_finite(out, begin, part);
        lanes.once([&] {
          if (any) flag(0) = 1.0F;
        });
      });
}

}  // namespace

void find_not_finite(const Tensor& x, const Tensor& found) {
  if (!is_floating(x.dtype())) return;
  if (x.device() == Device{}) {
    if (!all_finite(x)) found.fill(1.0);
    return;
  }
  if (is_half(x.dtype())) return find_not_finite(x.to(DType::f32), found);
  dispatch(current_stream(x.device()), [&](const auto& space) {
    dispatch_floating(x.dtype(), "find_not_finite",
                      [&]<class T>() { find_not_finite_kernel<T>(space, x, found); });
  });
}

void unscale(const Tensor& g, const Tensor& scale, const Tensor& found) {
  dispatch(current_stream(g.device()), [&](const auto& space) {
    dispatch_floating(g.dtype(), "unscale",
                      [&]<class T>() { unscale_kernel<T>(space, g, scale, found); });
  });
}

}  // namespace lockstep
