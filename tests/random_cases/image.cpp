#include <lockstep/autograd/functional.hpp>

#include "case.hpp"

namespace lockstep::test {
namespace {

using Case = RandomCase;

template <class Options, std::size_t n>
Options convolution(const Case& c) {
  Options o;
  o.stride = c.extents<n>("stride");
  o.padding = c.extents<n>("padding");
  o.dilation = c.extents<n>("dilation");
  o.groups = c.whole("groups");
  return o;
}

Variable conv1d_of(const Case& c) {
  Conv1dOptions o;
  o.stride = c.whole("stride");
  o.padding = c.whole("padding");
  o.dilation = c.whole("dilation");
  o.groups = c.whole("groups");
  return conv1d(c.input("x"), c.input("weight"), c.input("bias"), o);
}

template <std::size_t n>
ConvTransposeOptions<n> transposed(const Case& c) {
  auto o = convolution<ConvTransposeOptions<n>, n>(c);
  o.output_padding = c.extents<n>("output_padding");
  return o;
}

template <std::size_t n>
PoolOptions<n> window(const Case& c) {
  PoolOptions<n> o{.kernel = c.extents<n>("kernel"), .stride = c.extents<n>("stride")};
  o.padding = c.extents<n>("padding");
  o.ceil_mode = c.flag("ceil_mode");
  return o;
}

template <std::size_t n>
Variable max_pool_of(const Case& c) {
  return max_pool<n>(c.input("x"), window<n>(c));
}
template <std::size_t n>
Variable avg_pool_of(const Case& c) {
  return avg_pool<n>(c.input("x"), window<n>(c), c.flag("count_include_pad"), c.whole("divisor"));
}
template <std::size_t n>
Variable adaptive_avg_pool_of(const Case& c) {
  return adaptive_avg_pool<n>(c.input("x"), c.extents<n>("size"));
}
template <std::size_t n>
Variable adaptive_max_pool_of(const Case& c) {
  return adaptive_max_pool<n>(c.input("x"), c.extents<n>("size"));
}

Interpolation mode_of(const Case& c) {
  constexpr std::array modes{Interpolation::nearest, Interpolation::linear,
                             Interpolation::bilinear};
  return modes.at(static_cast<std::size_t>(c.whole("mode")));
}

}  // namespace

RandomOperations random_image_operations() {
  return {
      {"conv1d", conv1d_of},
      {"conv2d",
       [](const Case& c) {
         return conv2d(c.input("x"), c.input("weight"), c.input("bias"),
                       convolution<Conv2dOptions, 2>(c));
       }},
      {"conv3d",
       [](const Case& c) {
         return conv3d(c.input("x"), c.input("weight"), c.input("bias"),
                       convolution<Conv3dOptions, 3>(c));
       }},
      {"conv_transpose1d",
       [](const Case& c) {
         return conv_transpose1d(c.input("x"), c.input("weight"), c.input("bias"),
                                 transposed<1>(c));
       }},
      {"conv_transpose2d",
       [](const Case& c) {
         return conv_transpose2d(c.input("x"), c.input("weight"), c.input("bias"),
                                 transposed<2>(c));
       }},
      {"conv_transpose3d",
       [](const Case& c) {
         return conv_transpose3d(c.input("x"), c.input("weight"), c.input("bias"),
                                 transposed<3>(c));
       }},
      {"max_pool1d", max_pool_of<1>},
      {"max_pool2d", max_pool_of<2>},
      {"max_pool3d", max_pool_of<3>},
      {"avg_pool1d", avg_pool_of<1>},
      {"avg_pool2d", avg_pool_of<2>},
      {"avg_pool3d", avg_pool_of<3>},
      {"adaptive_avg_pool1d", adaptive_avg_pool_of<1>},
      {"adaptive_avg_pool2d", adaptive_avg_pool_of<2>},
      {"adaptive_avg_pool3d", adaptive_avg_pool_of<3>},
      {"adaptive_max_pool1d", adaptive_max_pool_of<1>},
      {"adaptive_max_pool2d", adaptive_max_pool_of<2>},
      {"interpolate",
       [](const Case& c) {
         const auto size = c.list("size");
         return interpolate(c.input("x"), size, mode_of(c), c.flag("align_corners"));
       }},
      {"interpolate_by",
       [](const Case& c) {
         const auto factors = c.list<double>("factors");
         return interpolate_by(c.input("x"), factors, mode_of(c), c.flag("align_corners"));
       }},
      {"pad",
       [](const Case& c) {
         constexpr std::array modes{PadMode::constant, PadMode::reflect, PadMode::replicate,
                                    PadMode::circular};
         const auto amounts = c.list("amounts");
         return pad(c.input("x"), amounts, modes.at(static_cast<std::size_t>(c.whole("mode"))),
                    c.number("value"));
       }},
      {"pixel_shuffle",
       [](const Case& c) { return pixel_shuffle(c.input("x"), c.whole("factor")); }},
  };
}

}  // namespace lockstep::test
