#include <lockstep/tensor/kernels/linalg/orthonormalize.hpp>

#include <cmath>
#include <limits>

#include <lockstep/base/philox.hpp>
#include <lockstep/tensor/dispatch.hpp>
#include <lockstep/tensor/kernels/for_each.hpp>
#include <lockstep/tensor/kernels/host_task.hpp>

namespace lockstep {
namespace {

template <class T>
class Rows {
 public:
  explicit Rows(const HostArray& a)
      : first_(static_cast<T*>(a.data())),
        lanes_(a.size(1)),
        count_(a.size(0)),
        width_(a.size(1)) {}

  [[nodiscard]] std::int64_t count() const { return count_; }

  /// Makes row i perpendicular to the rows before it and scales it to length 1. False if nothing is
  /// left of it.
  [[nodiscard]] bool append(std::int64_t i) const {
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

  void clear(std::int64_t i) const {
    lanes_.each([y = row(i)](std::int64_t c) { y[c] = T{0}; });
  }

  void draw(std::int64_t i, const RandomRows& random, std::uint32_t number) const {
    const Philox philox(random.seed);
    T* y = row(i);
    for (std::int64_t c = 0; c < width_; c += 4) {
      const auto block =
          philox(static_cast<std::uint32_t>(c / 4), number, random.step, random.stream);
      for (std::int64_t w = 0; w < 4 && c + w < width_; ++w) {
        y[c + w] = T{2} * Philox::uniform(block[static_cast<std::size_t>(w)]) - T{1};
      }
    }
  }

 private:
  [[nodiscard]] T* row(std::int64_t i) const { return first_ + i * width_; }

  [[nodiscard]] double dot(const T* x, const T* y) const {
    return lanes_.sum([=](std::int64_t c) { return double{x[c]} * double{y[c]}; });
  }
  void add(double factor, const T* x, T* y) const {
    lanes_.each([=](std::int64_t c) { y[c] = static_cast<T>(y[c] + factor * x[c]); });
  }
  void scale(T* y, double factor) const {
    lanes_.each([=](std::int64_t c) { y[c] = static_cast<T>(factor * y[c]); });
  }

  T* first_;
  Lanes<HostExecutionSpace> lanes_;
  std::int64_t count_, width_;
};

void expect_rows(const Tensor& a) {
  if (a.defined() && a.dims() == 2) return;
  throw ShapeError("orthonormalize_rows takes a matrix, not " + describe(a));
}

}  // namespace

void orthonormalize_rows(const Tensor& a) {
  expect_rows(a);
  dispatch_floating(a.dtype(), "orthonormalize_rows", [&]<class T>() {
    host_task(
        "orthonormalize_rows",
        [](const HostArray& a) {
          const Rows<T> rows(a);
          for (std::int64_t i = 0; i < rows.count(); ++i) {
            if (!rows.append(i)) rows.clear(i);
          }
        },
        a);
  });
}

void orthonormalize_rows(const Tensor& a, const RandomRows& random) {
  expect_rows(a);
  if (a.size(0) > a.size(1)) {
    throw ShapeError("no " + std::to_string(a.size(0)) + " rows of " + describe(a) +
                     " can be orthogonal to each other");
  }
  dispatch_floating(a.dtype(), "orthonormalize_rows", [&]<class T>() {
    host_task(
        "orthonormalize_rows",
        [random](const HostArray& a) {
          const Rows<T> rows(a);
          std::uint32_t draws = 0;
          for (std::int64_t i = 0; i < rows.count(); ++i) {
            while (!rows.append(i)) rows.draw(i, random, draws++);
          }
        },
        a);
  });
}

}  // namespace lockstep
