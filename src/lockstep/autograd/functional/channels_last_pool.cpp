#include <lockstep/autograd/functional/channels_last_pool.hpp>

#include <utility>

#include <lockstep/autograd/accumulate.hpp>
#include <lockstep/autograd/linear_map.hpp>
#include <lockstep/autograd/operand.hpp>
#include <lockstep/tensor/kernels/conv/channel_blocks.hpp>
#include <lockstep/tensor/math/device_math.hpp>

namespace lockstep::detail {
namespace {

// A plain y of one pixel has the same storage with channels last.

struct MaxPoolMap {
  static constexpr bool mixes_layouts = true;
  ImageWindows windows;
  Tensor places;

  void apply(const Tensor& x, bool accumulate, const Tensor& y) const {
    accumulate_into(y, accumulate, [&](const Tensor& to) {
      channels_last_max_pool_take(x, places, windows, in_channel_blocks(to));
    });
  }
  void transpose(const Tensor& y, bool accumulate, const Tensor& x) const {
    channels_last_max_pool_backward(in_channel_blocks(y), places, windows, accumulate, x);
  }
  [[nodiscard]] static const char* name() noexcept { return "max_pool2d"; }
};

struct AvgPoolMap {
  static constexpr bool mixes_layouts = true;
  std::optional<AveragePool> pool;

  void apply(const Tensor& x, bool accumulate, const Tensor& y) const {
    accumulate_into(y, accumulate, [&](const Tensor& to) {
      channels_last_avg_pool_forward(x, pool, in_channel_blocks(to));
    });
  }
  void transpose(const Tensor& y, bool accumulate, const Tensor& x) const {
    channels_last_avg_pool_backward(in_channel_blocks(y), pool, accumulate, x);
  }
  [[nodiscard]] static const char* name() noexcept { return "avg_pool2d"; }
};

Tensor empty_pooled(const Shape& shape, const Tensor& x) {
  return shape[2] * shape[3] == 1 ? Tensor::empty(shape, x.dtype(), x.device())
                                  : empty_channel_blocked(shape, x.dtype(), x.device());
}

}  // namespace

bool is_channels_last(const Variable& x) {
  return is_channel_blocked(x.data()) && math::device_math(x.data().device());
}

Variable channels_last_max_pool(const Variable& input, const ImageWindows& windows,
                                const Shape& shape) {
  return natively(
      [&](const Variable& x) {
        Tensor y = empty_pooled(shape, x.data());
        const Tensor last = in_channel_blocks(y);
        Tensor places = Tensor::empty(last.shape(), DType::u8, x.data().device());
        channels_last_max_pool_forward(x.data(), windows, last, places);
        return record<LinearMapNode<MaxPoolMap>>(std::move(y), {&x},
                                                 MaxPoolMap{windows, std::move(places)});
      },
      input);
}

Variable channels_last_avg_pool(const Variable& input, const std::optional<AveragePool>& pool,
                                const Shape& shape) {
  return natively(
      [&](const Variable& x) {
        return linear_map(AvgPoolMap{pool}, x, empty_pooled(shape, x.data()));
      },
      input);
}

}  // namespace lockstep::detail
