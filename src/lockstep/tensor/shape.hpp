#pragma once
#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

namespace lockstep {

/// The extents of a tensor, outermost first; at most max_dims of them, stored in place so that
/// shapes never allocate. The empty shape is a scalar.
class Shape {
 public:
  static constexpr int max_dims = 8;

  Shape() = default;
  /// Throws ShapeError for a negative extent or more than max_dims of them.
  Shape(std::initializer_list<std::int64_t> extents)
      : Shape(std::span(extents.begin(), extents.size())) {}
  explicit Shape(std::span<const std::int64_t> extents);

  [[nodiscard]] int dims() const noexcept { return dims_; }
  /// Extent of dimension `d`; negative `d` counts from the end.
  [[nodiscard]] std::int64_t operator[](int d) const;
  [[nodiscard]] std::int64_t numel() const noexcept {
    std::int64_t n = 1;
    for (const auto extent : *this) n *= extent;
    return n;
  }
  [[nodiscard]] const std::int64_t* begin() const noexcept { return extents_.data(); }
  [[nodiscard]] const std::int64_t* end() const noexcept { return extents_.data() + dims_; }

  /// The same shape with the leading dimension replaced.
  [[nodiscard]] Shape with_leading(std::int64_t extent) const;

  friend bool operator==(const Shape& a, const Shape& b) noexcept {
    if (a.dims_ != b.dims_) return false;
    for (int d = 0; d < a.dims_; ++d) {
      if (a.extents_[static_cast<std::size_t>(d)] != b.extents_[static_cast<std::size_t>(d)])
        return false;
    }
    return true;
  }

 private:
  std::array<std::int64_t, max_dims> extents_{};
  int dims_ = 0;
};

/// "[128, 1, 28, 28]".
[[nodiscard]] std::string to_string(const Shape& shape);

}  // namespace lockstep
