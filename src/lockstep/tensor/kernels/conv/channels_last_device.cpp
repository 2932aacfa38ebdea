#include <lockstep/tensor/kernels/conv/channels_last_device.hpp>

#include <lockstep/tensor/dispatch.hpp>
#include <lockstep/tensor/kernels/device_loops.hpp>
#include <lockstep/tensor/kernels/divisor.hpp>
#include <lockstep/tensor/sum_dtype.hpp>

namespace lockstep::detail {
namespace {

/// Where the n channels of one pixel that a thread moves are: side by side in the image with
/// channels last, a plane apart in the plain one. Threads side by side take pixels side by side.
template <int n>
class PixelsOfThreads {
 public:
  explicit PixelsOfThreads(const Shape& last)
      : pixels_(last[2] * last[3]),
        packs_(last[4] / n),
        count_(last[0] * packs_ * pixels_),
        planes_(pixels_, count_),
        samples_(packs_, count_) {}

  [[nodiscard]] std::int64_t count() const { return count_; }

  struct Place {
    std::int64_t plain;  ///< of the first channel's element
    std::int64_t pack;   ///< with channels last
  };
  [[nodiscard]] KOKKOS_FUNCTION Place operator[](std::int64_t thread) const {
    const std::int64_t plane = planes_.quotient(thread), pixel = thread - plane * pixels_;
    const std::int64_t sample = samples_.quotient(plane), pack = plane - sample * packs_;
    return {plane * n * pixels_ + pixel, (sample * pixels_ + pixel) * packs_ + pack};
  }
  [[nodiscard]] KOKKOS_FUNCTION std::int64_t plane() const { return pixels_; }

 private:
  std::int64_t pixels_, packs_, count_;
  Divisor planes_, samples_;
};

template <class T>
KOKKOS_FUNCTION T sum_of(T a, T b) {
  using Wide = SumOf<T>;
  return static_cast<T>(static_cast<Wide>(a) + static_cast<Wide>(b));
}

template <int n, class T, class Space>
void to_kernel(const Space& space, const Tensor& x, bool accumulate, const Tensor& y) {
  const T* const in = flat_view<Space, const T>(x).data();
  T* const out = flat_view<Space, T>(y).data();
  const PixelsOfThreads<n> pixels(y.shape());
  for_each(
      "lockstep::to_channels_last", space, pixels.count(), KOKKOS_LAMBDA(std::int64_t i) {
        const auto place = pixels[i];
        Pack<T, n> values;
        for (int e = 0; e < n; ++e) values.values[e] = in[place.plain + e * pixels.plane()];
        if (accumulate) {
          const auto old = load_pack<n>(out, place.pack);
          for (int e = 0; e < n; ++e) values.values[e] = sum_of(old.values[e], values.values[e]);
        }
        store_pack(values, out, place.pack);
      });
}

template <int n, class T, class Space>
void from_kernel(const Space& space, const Tensor& x, bool accumulate, const Tensor& y) {
  const T* const in = flat_view<Space, const T>(x).data();
  T* const out = flat_view<Space, T>(y).data();
  const PixelsOfThreads<n> pixels(x.shape());
  for_each(
      "lockstep::from_channels_last", space, pixels.count(), KOKKOS_LAMBDA(std::int64_t i) {
        const auto place = pixels[i];
        const auto values = load_pack<n>(in, place.pack);
        for (int e = 0; e < n; ++e) {
          T& to = out[place.plain + e * pixels.plane()];
          const T value = values.values[e];
          to = accumulate ? sum_of(to, value) : value;
        }
      });
}

/// Calls f.template operator()<n, T>(space), n channels being 16 bytes where the address allows it.
template <class F>
void with_channels(const Tensor& last, const F& f) {
  dispatch(current_stream(last.device()), [&](const auto& space) {
    dispatch_stored(last.dtype(), "channels_last", [&]<class T>() {
      constexpr int n = static_cast<int>(16 / sizeof(T));
      if (is_aligned_to_packs(last, n)) {
        f.template operator()<n, T>(space);
      } else {
        f.template operator()<1, T>(space);
      }
    });
  });
}

}  // namespace

void to_channels_last(const Tensor& x, bool accumulate, const Tensor& y) {
  with_channels(
      y, [&]<int n, class T>(const auto& space) { to_kernel<n, T>(space, x, accumulate, y); });
}

void from_channels_last(const Tensor& x, bool accumulate, const Tensor& y) {
  with_channels(
      x, [&]<int n, class T>(const auto& space) { from_kernel<n, T>(space, x, accumulate, y); });
}

}  // namespace lockstep::detail
