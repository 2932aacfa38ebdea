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
  /// The same shape with the leading dimension removed.
  [[nodiscard]] Shape without_leading() const;

  friend bool operator==(const Shape& a, const Shape& b) noexcept {
    if (a.dims_ != b.dims_) return false;
    for (std::size_t d = 0; d < static_cast<std::size_t>(a.dims_); ++d) {
      if (a.extents_[d] != b.extents_[d]) return false;
    }
    return true;
  }

 private:
  std::array<std::int64_t, max_dims> extents_{};
  int dims_ = 0;
};

/// A shape with at most one extent of -1, which is inferred from the number of elements.
class OpenShape {
 public:
  /// Throws ShapeError for an extent below -1, for more than one of -1, or too many of them.
  OpenShape(std::initializer_list<std::int64_t> extents)
      : OpenShape(std::span(extents.begin(), extents.size())) {}
  explicit OpenShape(std::span<const std::int64_t> extents);
  OpenShape(const Shape& shape) : shape_(shape) {}

  /// The shape of as many elements as `from` has. Throws ShapeError printing both.
  [[nodiscard]] Shape closed(const Shape& from) const;

 private:
  Shape shape_;    // 1 for the inferred extent
  int open_ = -1;  // which dimension is; -1: none
};

/// "[128, 1, 28, 28]".
[[nodiscard]] std::string to_string(const Shape& shape);

}  // namespace lockstep
