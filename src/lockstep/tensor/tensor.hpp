#pragma once
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include <lockstep/tensor/device.hpp>
#include <lockstep/tensor/dtype.hpp>
#include <lockstep/tensor/shape.hpp>
#include <lockstep/tensor/storage.hpp>

namespace lockstep {

class Stream;

/// The layout of a tensor's elements: plain is row-major; in channel blocks an image [N,C,H,W] is
/// stored as [N, C/B, H, W, B], where on a GPU B is C: channels last
/// (tensor/kernels/conv/channel_blocks.hpp). Said by the operation that arranges, never guessed
/// from a shape.
enum class Layout : std::uint8_t { plain, channel_blocks };

/// A dense row-major array on one device: a cheap handle to shared storage. Copying a Tensor copies
/// the handle; `clone` copies elements. Always contiguous: reshape and leading-dimension slices
/// share storage, everything else materialises. Constness is that of the handle, as in PyTorch.
class Tensor {
 public:
  /// No tensor at all: defined() is false. Its elements throw ShapeError, everything else is off
  /// limits.
  Tensor() = default;
  ~Tensor() = default;
  Tensor(const Tensor&) = default;
  Tensor(Tensor&&) = default;
  /// Another tensor for this handle. Lvalues only: on a temporary, `t[i] = x` would have no effect.
  Tensor& operator=(const Tensor&) & = default;
  Tensor& operator=(Tensor&&) & = default;

  /// Elements unspecified.
  [[nodiscard]] static Tensor empty(const Shape& shape, DType dtype = DType::f32,
                                    Device device = {});
  [[nodiscard]] static Tensor zeros(const Shape& shape, DType dtype = DType::f32,
                                    Device device = {});
  [[nodiscard]] static Tensor full(const Shape& shape, double value, DType dtype = DType::f32,
                                   Device device = {});
  /// Copies host elements, row-major. Throws ShapeError if their count is not shape.numel().
  template <class T>
  [[nodiscard]] static Tensor from(std::span<const T> elements, const Shape& shape,
                                   Device device = {}) {
    Tensor t = empty(shape, dtype_of<T>, device);
    t.copy_from_host(elements);
    return t;
  }
  template <class T>
  [[nodiscard]] static Tensor from(const std::vector<T>& elements, const Shape& shape,
                                   Device device = {}) {
    return from(std::span<const T>(elements), shape, device);
  }
  /// The same, in one dimension.
  template <class T>
  [[nodiscard]] static Tensor from(const std::vector<T>& elements) {
    return from(elements, {static_cast<std::int64_t>(elements.size())});
  }
  /// Of the elements' own dtype: from({1.F, 2.F}) is f32, from({1, 2}) i32, from({1.0, 2.0}) f64.
  template <class T>
  [[nodiscard]] static Tensor from(std::initializer_list<T> elements) {
    return from(elements, {static_cast<std::int64_t>(elements.size())});
  }
  template <class T>
  [[nodiscard]] static Tensor from(std::initializer_list<T> elements, const Shape& shape,
                                   Device device = {}) {
    return from(std::span<const T>(elements.begin(), elements.size()), shape, device);
  }
  /// A new tensor of `other`'s shape, dtype, device and layout.
  [[nodiscard]] static Tensor empty_like(const Tensor& other);
  /// A tensor over the whole or a part of existing storage, starting `offset_bytes` into it.
  [[nodiscard]] static Tensor over(IntrusivePtr<Storage> storage, std::size_t offset_bytes,
                                   const Shape& shape, DType dtype);

  [[nodiscard]] bool defined() const noexcept { return static_cast<bool>(storage_); }
  [[nodiscard]] DType dtype() const noexcept { return dtype_; }
  [[nodiscard]] Layout layout() const noexcept { return layout_; }
  [[nodiscard]] Device device() const noexcept { return storage_ ? storage_->device() : Device{}; }
  [[nodiscard]] const Shape& shape() const noexcept { return shape_; }
  [[nodiscard]] int dims() const noexcept { return shape_.dims(); }
  [[nodiscard]] std::int64_t size(int d) const { return shape_[d]; }
  [[nodiscard]] std::int64_t numel() const noexcept { return shape_.numel(); }
  [[nodiscard]] std::size_t bytes() const noexcept {
    return static_cast<std::size_t>(numel()) * size_of(dtype_);
  }

  /// The address of the first element on the tensor's device: for MPI, HDF5, oneDNN and runtimes.
  /// Host code reads elements through to_vector, item or view<Space, T, N>(t), never through this.
  [[nodiscard]] void* data() const noexcept {
    return storage_ ? static_cast<std::byte*>(storage_->data()) + offset_ : nullptr;
  }
  /// The address for kernels: data(), except for a simulated device, whose data() allows no access.
  /// For code that runs on the tensor's stream only; view and flat_view pass it to kernels.
  [[nodiscard]] void* kernel_data() const noexcept {
    return storage_ ? static_cast<std::byte*>(storage_->kernel_data()) + offset_ : nullptr;
  }
  [[nodiscard]] const IntrusivePtr<Storage>& storage() const noexcept { return storage_; }
  [[nodiscard]] std::size_t offset_bytes() const noexcept { return offset_; }

  /// The same memory, said to be arranged so: for operations that arrange it so, or that take each
  /// arrangement apart themselves. Channel blocks are floating [N, C/B, H, W, B], on the host f32,
  /// else ShapeError.
  [[nodiscard]] Tensor with_layout(Layout layout) const;
  /// The same elements with another shape of equal numel; one extent may be -1 and is inferred.
  /// Shares storage. Throws ShapeError printing both shapes, also for an image in channel blocks.
  [[nodiscard]] Tensor reshape(const OpenShape& shape) const;
  /// Rows [begin, end) of the leading dimension; shares storage.
  [[nodiscard]] Tensor slice(std::int64_t begin, std::int64_t end) const;
  /// Row `i` of the leading dimension, without that dimension; counts from the end if negative;
  /// shares storage. Throws ShapeError if there is no such row.
  [[nodiscard]] Tensor operator[](std::int64_t i) const;

  [[nodiscard]] Tensor clone() const;
  [[nodiscard]] Tensor to(DType dtype) const;  ///< converted copy, or this tensor if equal already
  /// A copy on another device, or this tensor if it is already there. The copy is behind the
  /// device's current stream. With `non_blocking` the host does not wait: do not write to a pinned
  /// source before the stream has copied it, and read a (pinned) result on the host only after
  /// Stream::synchronize().
  [[nodiscard]] Tensor to(Device device, bool non_blocking = false) const;
  /// Same shape, dtype and layout; any devices. Runs after the work on the devices' current
  /// streams; `non_blocking` as in to(): it has an effect if the host end is pinned.
  void copy_from(const Tensor& source, bool non_blocking = false) const;
  /// A copy in pinned host memory, so that copies to and from devices of this type overlap with the
  /// host's work; this tensor if it is already pinned.
  [[nodiscard]] Tensor pin_memory(DeviceType type) const;
  [[nodiscard]] bool is_pinned() const noexcept { return storage_ && storage_->is_pinned(); }
  /// Says that `stream`, of this device or one that copies from pinned memory, uses the tensor,
  /// which was made for another: its memory is not used again before the stream is done with it.
  void record_stream(const Stream& stream) const;
  void fill(double value) const;
  void zero() const;

  /// In place, visible through every handle to the same storage. Throws ShapeError if the result
  /// would have another dtype: a fraction added to integers, integer division, bool.
  const Tensor& operator+=(double number) const;
  const Tensor& operator-=(double number) const;
  const Tensor& operator*=(double number) const;
  const Tensor& operator/=(double number) const;
  /// `other` is repeated to this shape by broadcasting; both floating and of one dtype.
  const Tensor& operator+=(const Tensor& other) const;
  const Tensor& operator-=(const Tensor& other) const;
  const Tensor& operator*=(const Tensor& other) const;
  const Tensor& operator/=(const Tensor& other) const;

  /// Element access for host code: copies, and converts nothing (T must match dtype).
  template <class T>
  void copy_from_host(std::span<const T> elements) const {
    copy_bytes_from_host(elements.data(), elements.size(), dtype_of<T>);
  }
  template <class T>
  [[nodiscard]] std::vector<T> to_vector() const {
    std::vector<T> out(static_cast<std::size_t>(numel()));
    copy_bytes_to_host(out.data(), out.size(), dtype_of<T>);
    return out;
  }
  /// The only element of a one-element tensor of any dtype, as double (i64 up to 2^53 exactly).
  [[nodiscard]] double item() const;

 private:
  void expect_plain(const char* operation) const;
  void expect_defined(const char* operation) const;
  void expect_writable(const char* operation) const;
  void copy_bytes_from_host(const void* elements, std::size_t count, DType dtype) const;
  void copy_bytes_to_host(void* elements, std::size_t count, DType dtype) const;

  IntrusivePtr<Storage> storage_;
  std::size_t offset_ = 0;
  Shape shape_;
  DType dtype_ = DType::f32;
  Layout layout_ = Layout::plain;
};

/// "f32[128, 10] on host", for messages; mentions channel blocks.
[[nodiscard]] std::string describe(const Tensor& tensor);

}  // namespace lockstep
