#include <lockstep/tensor/tensor.hpp>

#include <cstring>

#include <lockstep/base/error.hpp>
#include <lockstep/tensor/absent_memory.hpp>
#include <lockstep/tensor/device_memory.hpp>
#include <lockstep/tensor/kernels/data/index_check.hpp>
#include <lockstep/tensor/kernels/elementwise/elementwise.hpp>
#include <lockstep/tensor/stream.hpp>
#include <lockstep/tensor/view.hpp>

namespace lockstep {

Tensor Tensor::empty(const Shape& shape, DType dtype, Device device) {
  const auto bytes = static_cast<std::size_t>(shape.numel()) * size_of(dtype);
  return over(Storage::allocate(bytes, device), 0, shape, dtype);
}

Tensor Tensor::zeros(const Shape& shape, DType dtype, Device device) {
  Tensor t = empty(shape, dtype, device);
  t.zero();
  return t;
}

Tensor Tensor::full(const Shape& shape, double value, DType dtype, Device device) {
  Tensor t = empty(shape, dtype, device);
  t.fill(value);
  return t;
}

Tensor Tensor::empty_like(const Tensor& other) {
  Tensor t = empty(other.shape_, other.dtype_, other.device());
  t.layout_ = other.layout_;
  return t;
}

Tensor Tensor::over(IntrusivePtr<Storage> storage, std::size_t offset_bytes, const Shape& shape,
                    DType dtype) {
  if (!storage) throw Error("a tensor over storage: the storage is null");
  Tensor t;
  t.offset_ = offset_bytes;
  t.shape_ = shape;
  t.dtype_ = dtype;
  if (offset_bytes % size_of(dtype) != 0 || offset_bytes + t.bytes() > storage->bytes()) {
    throw ShapeError("a tensor " + std::string(name_of(dtype)) + to_string(shape) + " at byte " +
                     std::to_string(offset_bytes) + " does not fit a storage of " +
                     std::to_string(storage->bytes()) + " bytes");
  }
  t.storage_ = std::move(storage);
  return t;
}

Tensor Tensor::with_layout(Layout layout) const {
  const bool is_on_host = device().type == DeviceType::host;
  const bool has_dtype = is_on_host ? dtype_ == DType::f32 : is_floating(dtype_);
  if (layout == Layout::channel_blocks && (dims() != 5 || !has_dtype)) {
    throw ShapeError(describe(*this) +
                     " is not an image in channel blocks: these are [N, C/B, H, W, B], on the host "
                     "of f32");
  }
  Tensor t = *this;
  t.layout_ = layout;
  return t;
}

void Tensor::expect_plain(const char* operation) const {
  if (layout_ == Layout::plain) return;
  throw ShapeError(std::string(operation) + " of " + describe(*this) +
                   ": convert it to a plain layout first, with from_channel_blocks");
}

Tensor Tensor::reshape(const OpenShape& shape) const {
  expect_plain("reshape");
  Tensor t = *this;
  t.shape_ = shape.closed(shape_);
  return t;
}

Tensor Tensor::operator[](std::int64_t i) const {
  expect_plain("a row");
  const std::int64_t rows = dims() == 0 ? 0 : size(0), row = i < 0 ? i + rows : i;
  if (row < 0 || row >= rows) {
    throw ShapeError("there is no row " + std::to_string(i) + " in a tensor of shape " +
                     to_string(shape_));
  }
  Tensor t = slice(row, row + 1);
  t.shape_ = shape_.without_leading();
  return t;
}

Tensor Tensor::slice(std::int64_t begin, std::int64_t end) const {
  const std::int64_t rows = dims() == 0 ? 0 : size(0);
  if (begin < 0 || begin > end || end > rows) {
    throw ShapeError("rows [" + std::to_string(begin) + ", " + std::to_string(end) +
                     ") are not inside a tensor of shape " + to_string(shape_));
  }
  const std::int64_t row_elements = rows == 0 ? 0 : numel() / rows;
  Tensor t = *this;
  t.shape_ = shape_.with_leading(end - begin);
  t.offset_ += static_cast<std::size_t>(begin * row_elements) * size_of(dtype_);
  return t;
}

void Tensor::expect_defined(const char* operation) const {
  if (defined()) return;
  throw ShapeError(
      std::string(operation) +
      " of an undefined tensor: nothing was assigned to it, or, if it is a gradient, no "
      "backward() has reached it");
}

void Tensor::expect_writable(const char* operation) const {
  expect_defined(operation);
  if (!is_absent(*storage_, offset_ + bytes())) return;
  throw Error(std::string(operation) + " of " + describe(*this) +
              ", a parameter whose values are elsewhere, as FullyShardedDataParallel shares them "
              "out: what is written here would be lost. Load by the wrapper's load_state_dict()");
}

Tensor Tensor::clone() const {
  expect_defined("clone()");
  Tensor t = empty_like(*this);
  t.copy_from(*this);
  return t;
}

Tensor Tensor::to(DType dtype) const {
  if (dtype == dtype_) return *this;
  // The host's channel blocks are of f32.
  if (device().type == DeviceType::host || !is_floating(dtype)) expect_plain("conversion");
  Tensor t = empty(shape_, dtype, device());
  t.layout_ = layout_;
  convert(*this, t);
  return t;
}

Tensor Tensor::to(Device device, bool non_blocking) const {
  const Device here = this->device();
  if (device == here) return *this;
  // Their blocks differ.
  if ((device.type == DeviceType::host) != (here.type == DeviceType::host)) {
    expect_plain("a copy between host and device");
  }
  const bool pinned = non_blocking && device.type == DeviceType::host;
  auto storage =
      pinned ? Storage::allocate_pinned(bytes(), here.type) : Storage::allocate(bytes(), device);
  Tensor t = over(std::move(storage), 0, shape_, dtype_);
  t.layout_ = layout_;
  t.copy_from(*this, non_blocking);
  return t;
}

Tensor Tensor::pin_memory(DeviceType type) const {
  if (is_pinned()) return *this;
  Tensor t = over(Storage::allocate_pinned(bytes(), type), 0, shape_, dtype_);
  t.layout_ = layout_;
  t.copy_from(*this);
  return t;
}

void Tensor::record_stream(const Stream& stream) const {
  if (storage_) storage_->record_stream(stream);
}

namespace {

/// The end of a copy that lies on the host, if the other does not and this one is pinned.
const Tensor* only_pinned_end(const Tensor& source, const Tensor& target) {
  if (source.device() == target.device()) return nullptr;
  if (source.is_pinned()) return &source;
  return target.is_pinned() ? &target : nullptr;
}

}  // namespace

void Tensor::copy_from(const Tensor& source, bool non_blocking) const {
  source.expect_defined("a copy");
  expect_writable("copy_from()");
  if (source.shape_ != shape_ || source.dtype_ != dtype_ || source.layout_ != layout_) {
    throw ShapeError("cannot copy " + describe(source) + " into " + describe(*this));
  }
  const Tensor* const pinned = non_blocking ? only_pinned_end(source, *this) : nullptr;
  device_copy(data(), device(), source.data(), source.device(), bytes(), pinned);
  if (pinned) pinned->record_stream(current_stream(pinned == this ? source.device() : device()));
}

void Tensor::fill(double value) const {
  expect_writable("fill()");
  lockstep::fill(*this, value);
}

void Tensor::zero() const {
  expect_writable("zero()");
  device_zero(data(), device(), bytes());
}

double Tensor::item() const {
  expect_defined("item()");
  if (numel() != 1) throw ShapeError("item() needs one element, not " + describe(*this));
  expect_right_indices(device());
  alignas(8) std::byte element[8];
  device_copy(element, Device{}, data(), device(), bytes());
  const auto as = [&]<class T>(T value) {
    std::memcpy(&value, element, sizeof(T));
    return static_cast<double>(value);
  };
  switch (dtype_) {
    case DType::f32:
      return as(float{});
    case DType::f64:
      return as(double{});
    case DType::i32:
      return as(std::int32_t{});
    case DType::i64:
      return as(std::int64_t{});
    case DType::u8:
      return as(std::uint8_t{});
    case DType::boolean:
      return as(false);
    case DType::bf16:
    case DType::f16:
      break;
  }
  return to(DType::f32).item();
}

void Tensor::copy_bytes_from_host(const void* elements, std::size_t count, DType dtype) const {
  expect_writable("copy_from_host()");
  if (dtype != dtype_ || static_cast<std::int64_t>(count) != numel()) {
    throw ShapeError("cannot copy " + std::to_string(count) + " host elements of " +
                     std::string(name_of(dtype)) + " into " + describe(*this));
  }
  device_copy(data(), device(), elements, Device{}, bytes());
}

void Tensor::copy_bytes_to_host(void* elements, std::size_t count, DType dtype) const {
  expect_defined("to_vector()");
  if (dtype != dtype_ || static_cast<std::int64_t>(count) != numel()) {
    throw ShapeError("cannot read " + describe(*this) + " as " + std::string(name_of(dtype)));
  }
  device_copy(elements, Device{}, data(), device(), bytes());
}

std::string describe(const Tensor& tensor) {
  if (!tensor.defined()) return "an undefined tensor";
  return std::string(name_of(tensor.dtype())) + to_string(tensor.shape()) + " on " +
         to_string(tensor.device()) +
         (tensor.layout() == Layout::channel_blocks ? " in channel blocks" : "");
}

namespace detail {

void expect_elements(const Tensor& tensor, DType wanted, int dims, bool fits, DeviceType kernels) {
  const Device target = launch_target.device;
  const Device here = kernels == DeviceType::cuda       ? Device{kernels, tensor.device().index}
                      : target.type == DeviceType::cuda ? Device{}
                                                        : target;
  if (tensor.defined() && tensor.device() != here) {
    throw ShapeError("an operation on " + to_string(here) + " meets " + describe(tensor) +
                     ": its tensors must be on one device; move this one there with to()");
  }
  if (fits && tensor.defined() && tensor.dtype() == wanted) return;
  throw ShapeError("a kernel needs " + std::string(name_of(wanted)) + " with " +
                   std::to_string(dims) + " dimensions on " + to_string(here) + ", not " +
                   describe(tensor));
}

}  // namespace detail
}  // namespace lockstep
