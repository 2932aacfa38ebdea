#pragma once
// What pools of images with channels last share. Private to their .cpp files.
#include <algorithm>
#include <initializer_list>

#include <lockstep/tensor/dispatch.hpp>
#include <lockstep/tensor/kernels/device_loops.hpp>
#include <lockstep/tensor/kernels/divisor.hpp>
#include <lockstep/tensor/kernels/pool/channels_last_pool.hpp>
#include <lockstep/tensor/kernels/pool/pool_dims.hpp>
#include <lockstep/tensor/sum_dtype.hpp>

namespace lockstep::detail {

/// Where packs of n neighbouring channels of an image[N,1,H,W,C] are: those of threads side by side
/// are side by side.
template <int n>
class PacksOfImage {
 public:
  explicit PacksOfImage(const Tensor& image)
      : height_(image.size(2)),
        width_(image.size(3)),
        packs_(image.size(4) / n),
        count_(image.numel() / n),
        pixels_(packs_, count_),
        rows_(width_, count_),
        samples_(height_, count_) {}

  [[nodiscard]] std::int64_t count() const { return count_; }

  struct Place {
    std::int64_t sample, h, w, pack;
  };
  [[nodiscard]] KOKKOS_FUNCTION Place operator[](std::int64_t i) const {
    const std::int64_t pixel = pixels_.quotient(i), row = rows_.quotient(pixel);
    const std::int64_t sample = samples_.quotient(row);
    return {sample, row - sample * height_, pixel - row * width_, i - pixel * packs_};
  }
  /// Of the same channels at (h, w).
  [[nodiscard]] KOKKOS_FUNCTION std::int64_t at(const Place& place, std::int64_t h,
                                                std::int64_t w) const {
    return ((place.sample * height_ + h) * width_ + w) * packs_ + place.pack;
  }

 private:
  std::int64_t height_, width_, packs_, count_;
  Divisor pixels_, rows_, samples_;
};

/// Calls f.template operator()<n, T>(space) for images of Ts: n channels are 16 bytes where the
/// addresses allow it.
template <class F>
void with_packs_of_images(const char* name, std::initializer_list<const Tensor*> images,
                          const F& f) {
  const Tensor& first = **images.begin();
  dispatch(current_stream(first.device()), [&](const auto& space) {
    dispatch_stored(first.dtype(), name, [&]<class T>() {
      constexpr int n = static_cast<int>(16 / sizeof(T));
      const bool is_aligned = std::all_of(
          images.begin(), images.end(), [](const Tensor* t) { return is_aligned_to_packs(*t, n); });
      if (is_aligned) {
        f.template operator()<n, T>(space);
      } else {
        f.template operator()<1, T>(space);
      }
    });
  });
}

/// Calls f(dims) with the windows' PoolDims.
template <class F>
void with_windows(const ImageWindows& windows, const Tensor& x, const Tensor& y, const F& f) {
  if (windows) {
    f(windows_of(*windows, x, y));
  } else {
    f(parts_of(x, y));
  }
}

}  // namespace lockstep::detail
