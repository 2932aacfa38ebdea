#include <lockstep/tensor/kernels/linalg/orthonormalize.hpp>

#include <cmath>
#include <limits>

#include <lockstep/base/philox.hpp>
#include <lockstep/tensor/dispatch.hpp>
#include <lockstep/tensor/kernels/for_each.hpp>

namespace lockstep {
namespace {

/// The rows of a matrix, for the lanes of one kernel; each lane reads only columns that it wrote.
template <class T, class Space>
class RowsInLanes {
 public:
  KOKKOS_FUNCTION RowsInLanes(T* first, std::int64_t width, const Lanes<Space>& lanes)
      : first_(first), width_(width), lanes_(lanes) {}

  /// Makes row i perpendicular to the rows before it and scales it to length 1. False if nothing is
  /// left of it.
  [[nodiscard]] KOKKOS_FUNCTION bool append(std::int64_t i) const {
    // One pass leaves an angle of (rounding / remaining length); the second pass removes it.
    constexpr double rounding = 64.0 * std::numeric_limits<T>::epsilon();
    const T* mine = row(i);
    double before = std::sqrt(dot(mine, mine));
    for (int pass = 0; pass < 2; ++pass) {
      for (std::int64_t j = 0; j < i; ++j) add(-dot(row(j), mine), row(j), row(i));
      const double left = std::sqrt(dot(mine, mine));
      if (left <= rounding * before) return false;  // false for NaN
      scale(row(i), 1.0 / left);
      before = 1.0;
    }
    return true;
  }

  KOKKOS_FUNCTION void clear(std::int64_t i) const {
    lanes_.each([y = row(i)](std::int64_t c) { y[c] = T{0}; });
  }

  KOKKOS_FUNCTION void draw(std::int64_t i, const Philox& philox, const RandomRows& random,
                            std::uint32_t number) const {
    lanes_.each([=, y = row(i)](std::int64_t c) {
      const auto block =
          philox(static_cast<std::uint32_t>(c / 4), number, random.step, random.stream);
      y[c] = T{2} * Philox::uniform(block[static_cast<std::size_t>(c % 4)]) - T{1};
    });
  }

 private:
  [[nodiscard]] KOKKOS_FUNCTION T* row(std::int64_t i) const { return first_ + i * width_; }

  [[nodiscard]] KOKKOS_FUNCTION double dot(const T* x, const T* y) const {
    return lanes_.sum([=](std::int64_t c) { return double{x[c]} * double{y[c]}; });
  }
  KOKKOS_FUNCTION void add(double factor, const T* x, T* y) const {
    lanes_.each([=](std::int64_t c) { y[c] = static_cast<T>(y[c] + factor * x[c]); });
  }
  KOKKOS_FUNCTION void scale(T* y, double factor) const {
    lanes_.each([=](std::int64_t c) { y[c] = static_cast<T>(factor * y[c]); });
  }

  T* first_;
  std::int64_t width_;
  const Lanes<Space>& lanes_;
};

template <class T, class Space>
void clear_lost_kernel(const Space& space, const Tensor& a) {
  const auto rows = view<Space, T, 2>(a);
  const std::int64_t count = a.size(0), width = a.size(1);
  for_each_row(
      "lockstep::orthonormalize_rows", space, 1, width,
      KOKKOS_LAMBDA(std::int64_t, const Lanes<Space>& lanes) {
        const RowsInLanes<T, Space> all(rows.data(), width, lanes);
        for (std::int64_t i = 0; i < count; ++i) {
          if (!all.append(i)) all.clear(i);
        }
      });
}

template <class T, class Space>
void draw_lost_kernel(const Space& space, const Tensor& a, const RandomRows& random) {
  const auto rows = view<Space, T, 2>(a);
  const std::int64_t count = a.size(0), width = a.size(1);
  const Philox philox(random.seed);
  for_each_row(
      "lockstep::orthonormalize_rows", space, 1, width,
      KOKKOS_LAMBDA(std::int64_t, const Lanes<Space>& lanes) {
        const RowsInLanes<T, Space> all(rows.data(), width, lanes);
        std::uint32_t draws = 0;
        for (std::int64_t i = 0; i < count; ++i) {
          while (!all.append(i)) all.draw(i, philox, random, draws++);
        }
      });
}

void expect_rows(const Tensor& a) {
  if (a.defined() && a.dims() == 2) return;
  throw ShapeError("orthonormalize_rows takes a matrix, not " + describe(a));
}

}  // namespace

void orthonormalize_rows(const Tensor& a) {
  expect_rows(a);
  dispatch(current_stream(a.device()), [&](const auto& space) {
    dispatch_floating(a.dtype(), "orthonormalize_rows",
                      [&]<class T>() { clear_lost_kernel<T>(space, a); });
  });
}

void orthonormalize_rows(const Tensor& a, const RandomRows& random) {
  expect_rows(a);
  if (a.size(0) > a.size(1)) {
    throw ShapeError("no " + std::to_string(a.size(0)) + " rows of " + describe(a) +
                     " can be orthogonal to each other");
  }
  dispatch(current_stream(a.device()), [&](const auto& space) {
    dispatch_floating(a.dtype(), "orthonormalize_rows",
                      [&]<class T>() { draw_lost_kernel<T>(space, a, random); });
  });
}

}  // namespace lockstep
