#include <lockstep/tensor/shape.hpp>

#include <algorithm>

#include <lockstep/base/error.hpp>
#include <lockstep/tensor/device.hpp>
#include <lockstep/tensor/dtype.hpp>
#include <lockstep/tensor/extents.hpp>

namespace lockstep {

Shape::Shape(std::span<const std::int64_t> extents) : dims_(static_cast<int>(extents.size())) {
  if (extents.size() > static_cast<std::size_t>(max_dims)) {
    throw ShapeError("a tensor has at most " + std::to_string(max_dims) + " dimensions, not " +
                     std::to_string(extents.size()));
  }
  std::ranges::copy(extents, extents_.begin());
  for (const auto extent : *this) {
    if (extent < 0) throw ShapeError("shape " + to_string(*this) + " has a negative extent");
  }
}

std::int64_t Shape::operator[](int d) const {
  const int index = d < 0 ? d + dims_ : d;
  if (index < 0 || index >= dims_) {
    throw ShapeError("shape " + to_string(*this) + " has no dimension " + std::to_string(d));
  }
  return extents_[static_cast<std::size_t>(index)];
}

Shape Shape::with_leading(std::int64_t extent) const {
  if (dims_ == 0) throw ShapeError("a scalar has no leading dimension");
  Shape result = *this;
  result.extents_[0] = extent;
  return result;
}

void detail::refuse_extents(std::size_t given, std::size_t dims) {
  throw ShapeError("a list of " + std::to_string(given) + " numbers does not fit " +
                   std::to_string(dims) +
                   " spatial dimensions: give one number, which fills all, "
                   "or one for each");
}

Shape Shape::without_leading() const {
  if (dims_ == 0) throw ShapeError("a scalar has no leading dimension");
  return Shape(std::span(begin() + 1, end()));
}

OpenShape::OpenShape(std::span<const std::int64_t> extents) {
  std::array<std::int64_t, Shape::max_dims> closed{};
  for (std::size_t d = 0; d < std::min(extents.size(), closed.size()); ++d) {
    closed[d] = extents[d];
    if (extents[d] != -1) continue;
    if (open_ >= 0)
      throw ShapeError("only one extent of a shape can be -1, the extent that is inferred");
    open_ = static_cast<int>(d);
    closed[d] = 1;
  }
  shape_ = extents.size() > closed.size() ? Shape(extents)
                                          : Shape(std::span(closed).first(extents.size()));
}

Shape OpenShape::closed(const Shape& from) const {
  const std::int64_t known = shape_.numel(), numel = from.numel();
  if (open_ < 0 && known == numel) return shape_;
  if (open_ >= 0 && known > 0 && numel % known == 0) {
    std::array<std::int64_t, Shape::max_dims> extents{};
    std::ranges::copy(shape_, extents.begin());
    extents[static_cast<std::size_t>(open_)] = numel / known;
    return Shape(
        std::span<const std::int64_t>(extents).first(static_cast<std::size_t>(shape_.dims())));
  }
  std::string wanted = "[";
  for (int d = 0; d < shape_.dims(); ++d) {
    if (d > 0) wanted += ", ";
    wanted += std::to_string(d == open_ ? -1 : shape_[d]);
  }
  wanted += "]";
  const char* why = open_ < 0    ? " elements)"
                    : known == 0 ? " elements for any value of -1)"
                                 : " elements or a multiple of them)";
  throw ShapeError("cannot reshape " + to_string(from) + " (" + std::to_string(numel) +
                   " elements) to " + wanted + " (" + std::to_string(known) + why);
}

std::string to_string(const Shape& shape) {
  std::string text = "[";
  for (const auto extent : shape) {
    if (text.size() > 1) text += ", ";
    text += std::to_string(extent);
  }
  return text + "]";
}

std::string_view name_of(DeviceType type) noexcept {
  switch (type) {
    case DeviceType::host:
      break;
    case DeviceType::cuda:
      return "cuda";
    case DeviceType::sim:
      return "sim";
  }
  return "host";
}

std::string to_string(Device device) {
  std::string text(name_of(device.type));
  if (device.type != DeviceType::host) text += ":" + std::to_string(device.index);
  return text;
}

std::size_t slot_of(Device device) {
  if (device.type == DeviceType::host) return 0;
  if (device.index < 0 || device.index >= max_devices_of_a_type) {
    throw ShapeError("there is no device " + to_string(device) + ": indices are below " +
                     std::to_string(max_devices_of_a_type));
  }
  const std::size_t before = device.type == DeviceType::cuda ? 1 : 1 + max_devices_of_a_type;
  return before + static_cast<std::size_t>(device.index);
}

std::string_view name_of(DType dtype) noexcept {
  switch (dtype) {
    case DType::f32:
      return "f32";
    case DType::f64:
      return "f64";
    case DType::bf16:
      return "bf16";
    case DType::f16:
      return "f16";
    case DType::i32:
      return "i32";
    case DType::i64:
      return "i64";
    case DType::u8:
      return "u8";
    case DType::boolean:
      return "bool";
  }
  return "?";
}

}  // namespace lockstep
