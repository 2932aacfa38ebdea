#pragma once
#include <cstdint>

namespace lockstep {

/// The layout of images between built-in layers.
enum class ImageLayout : std::uint8_t {
  /// The fastest: on the host channel blocks, and convolution and pooling in one pass; on a GPU
  /// channels last in 16 bits.
  automatic,
  /// Row-major [N,C,H,W], layer by layer, as on a simulated device: then with its bits.
  plain,
};

/// This thread's; automatic by default.
[[nodiscard]] ImageLayout image_layout() noexcept;

/// Sets this thread's layout of images while it lives, as PyTorch's memory_format does for a model.
class LayoutGuard {
 public:
  explicit LayoutGuard(ImageLayout layout) noexcept;
  ~LayoutGuard();
  LayoutGuard(const LayoutGuard&) = delete;
  LayoutGuard& operator=(const LayoutGuard&) = delete;

 private:
  ImageLayout before_;
};

}  // namespace lockstep
