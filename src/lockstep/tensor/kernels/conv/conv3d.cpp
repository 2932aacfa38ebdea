#include <lockstep/tensor/kernels/conv/conv3d.hpp>

#include <lockstep/base/error.hpp>
#include <lockstep/tensor/dispatch.hpp>
#include <lockstep/tensor/kernels/channel_packs.hpp>
#include <lockstep/tensor/kernels/conv/conv_task.hpp>
#include <lockstep/tensor/kernels/for_each.hpp>
#include <lockstep/tensor/math/device_math.hpp>

namespace lockstep {
namespace {

using detail::ByColumn;
using detail::ChannelParts;
using detail::ChannelsOfPack;
using detail::Conv2dProblem;
using detail::load_pack;
using detail::PackOf;
using detail::store_pack;

Conv2dProblem volumes(const Tensor& x, const Tensor& weight, const Tensor& y,
                      const Conv3dOptions& o) {
  Conv2dProblem p{x.size(0),
                  x.size(1),
                  x.size(3),
                  x.size(4),
                  weight.size(0),
                  weight.size(3),
                  weight.size(4),
                  y.size(3),
                  y.size(4),
                  {{o.stride[1], o.stride[2]},
                   {o.padding[1], o.padding[2]},
                   {o.dilation[1], o.dilation[2]},
                   o.groups}};
  p.is_3d = true;
  p.depth = {x.size(2), weight.size(2), y.size(2), o.stride[0], o.padding[0], o.dilation[0]};
  return p;
}

template <class T, class Space>
void bias_to_channels(const Space& space, const Tensor& bias, const Tensor& y) {
  const std::int64_t channels = y.size(1), rows = y.size(0) * channels;
  const std::int64_t positions = rows == 0 ? 0 : y.numel() / rows;
  const auto b = flat_view<Space, const T>(bias);
  const auto out = flat_view<Space, T>(y);
  for_each_row(
      "lockstep::add_channel_bias", space, rows, positions,
      KOKKOS_LAMBDA(std::int64_t r, const Lanes<Space>& lanes) {
        using Sum = SumOf<T>;
        const Sum shift = static_cast<Sum>(b(r % channels));
        lanes.each([&](std::int64_t i) {
          T& element = out(r * positions + i);
          element = static_cast<T>(static_cast<Sum>(element) + shift);
        });
      });
}

/// The same on a GPU, of an image in channel blocks too.
template <int n, PackOf of, class T, class Space>
void bias_to_packs(const Space& space, const Tensor& bias, const ChannelParts& parts,
                   const Tensor& y) {
  const auto b = ByColumn<T>::template of<Space>(bias);
  T* const out = flat_view<Space, T>(y).data();
  const ChannelsOfPack<n, of> channels_of(parts);
  for_each(
      "lockstep::add_channel_bias_to_packs", space, y.numel() / n, KOKKOS_LAMBDA(std::int64_t i) {
        using Sum = SumOf<T>;
        const auto shifts = channels_of(i).numbers(b);
        auto pack = load_pack<n>(out, i);
        for (int e = 0; e < n; ++e) {
          pack.values[e] =
              static_cast<T>(static_cast<Sum>(pack.values[e]) + static_cast<Sum>(shifts.values[e]));
        }
        store_pack(pack, out, i);
      });
}

}  // namespace

void conv3d_forward(const Tensor& x, const Tensor& weight, const Tensor& bias,
                    const Conv3dOptions& options, const Tensor& y) {
  detail::run_forward(volumes(x, weight, y, options), x, weight, bias, y);
}

void conv3d_backward_input(const Tensor& grad_y, const Tensor& weight, const Conv3dOptions& options,
                           bool accumulate, const Tensor& grad_x) {
  detail::run_backward_input(volumes(grad_x, weight, grad_y, options), grad_y, weight, accumulate,
                             grad_x);
}

void conv3d_backward_weight(const Tensor& grad_y, const Tensor& x, const Conv3dOptions& options,
                            bool accumulate, const Tensor& grad_weight) {
  detail::run_backward_weight(volumes(x, grad_weight, grad_y, options), grad_y, x, accumulate,
                              grad_weight);
}

void add_channel_bias(const Tensor& bias, const Tensor& y) {
  dispatch(current_stream(y.device()), [&](const auto& space) {
    dispatch_stored(y.dtype(), "add_channel_bias", [&]<class T>() {
      if (!math::device_math(y.device())) {
        return bias_to_channels<T>(space, bias, y);
      }
      const ChannelParts parts(detail::planes(y), sizeof(T));
      detail::with_wide_packs<T>(
          parts, {&y}, [&]<int n, PackOf of>() { bias_to_packs<n, of, T>(space, bias, parts, y); });
    });
  });
}

}  // namespace lockstep
