#include <lockstep/autograd/functional/conv.hpp>
#include <lockstep/autograd/functional/conv_nd.hpp>
#include <lockstep/autograd/functional/group_norm.hpp>
#include <lockstep/autograd/functional/pool.hpp>
#include <lockstep/autograd/functional/resample.hpp>

#include "checks.hpp"

namespace lockstep::test {
namespace {

/// An attribute with a number for each dimension, or one for all.
template <std::size_t dims>
Extents<dims> extents(const Case& c, const std::string& name, std::int64_t otherwise) {
  if (!c.has_attribute(name)) return otherwise;
  return Extents<dims>::from(c.integers(name));
}

bool flag(const Case& c, const std::string& name, bool otherwise) {
  return c.has_attribute(name) ? c.number(name) != 0.0 : otherwise;
}

struct Operands {
  Variable x, weight, bias;
  explicit Operands(Case& c) : x(c.input("x")), weight(c.input("weight")), bias(c.input("bias")) {}
};

void conv1d_case(Case& c) {
  const Operands o(c);
  c.expect_output_and_gradients(conv1d(
      o.x, o.weight, o.bias,
      {c.integer("stride"), c.integer("padding"), c.integer("dilation"), c.integer("groups")}));
}

void conv3d_case(Case& c) {
  const Operands o(c);
  c.expect_output_and_gradients(conv3d(o.x, o.weight, o.bias,
                                       {extents<3>(c, "stride", 1), extents<3>(c, "padding", 0),
                                        extents<3>(c, "dilation", 1), c.integer("groups")}));
}

template <std::size_t dims, auto convolve>
void conv_transpose_case(Case& c) {
  const Operands o(c);
  const ConvTransposeOptions<dims> options{
      extents<dims>(c, "stride", 1), extents<dims>(c, "padding", 0),
      extents<dims>(c, "output_padding", 0), extents<dims>(c, "dilation", 1), c.integer("groups")};
  c.expect_output_and_gradients(convolve(o.x, o.weight, o.bias, options));
}

template <std::size_t dims>
PoolOptions<dims> pool_options(const Case& c) {
  PoolOptions<dims> options{.kernel = extents<dims>(c, "kernel_size", 1),
                            .padding = extents<dims>(c, "padding", 0),
                            .ceil_mode = flag(c, "ceil_mode", false)};
  if (c.has_attribute("stride")) options.stride = extents<dims>(c, "stride", 1);
  return options;
}

template <std::size_t dims>
void max_pool_case(Case& c) {
  c.expect_output_and_gradients(max_pool(c.input("x"), pool_options<dims>(c)));
}

template <std::size_t dims>
void avg_pool_case(Case& c) {
  c.expect_output_and_gradients(
      avg_pool(c.input("x"), pool_options<dims>(c), flag(c, "count_include_pad", true)));
}

template <std::size_t dims>
void adaptive_avg_case(Case& c) {
  c.expect_output_and_gradients(
      adaptive_avg_pool(c.input("x"), extents<dims>(c, "output_size", 1)));
}

void adaptive_max_case(Case& c) {
  c.expect_output_and_gradients(adaptive_max_pool(c.input("x"), extents<2>(c, "output_size", 1)));
}

void interpolate_case(Case& c) {
  const Variable x = c.input("x");
  if (c.name() == "interpolate.nearest_x2") {
    return c.expect_output_and_gradients(interpolate_by(x, {c.number("scale_factor")}));
  }
  const bool corners = c.name() == "interpolate.bilinear_align_corners";
  c.expect_output_and_gradients(
      interpolate(x, c.integers("size"), Interpolation::bilinear, corners));
}

void pad_case(Case& c) {
  const std::map<std::string, PadMode> modes{{"pad.constant", PadMode::constant},
                                             {"pad.reflect", PadMode::reflect},
                                             {"pad.replicate", PadMode::replicate},
                                             {"pad.circular", PadMode::circular}};
  c.expect_output_and_gradients(pad(c.input("x"), c.integers("pad"), modes.at(c.name())));
}

void pixel_shuffle_case(Case& c) {
  c.expect_output_and_gradients(pixel_shuffle(c.input("x"), c.integer("upscale_factor")));
}

void group_norm_case(Case& c) {
  const Operands o(c);
  c.expect_output_and_gradients(
      group_norm(o.x, c.integer("num_groups"), o.weight, o.bias, c.number("eps")));
}

void instance_norm_case(Case& c) {
  const Operands o(c);
  c.expect_output_and_gradients(instance_norm(o.x, o.weight, o.bias, c.number("eps")));
}

void local_response_norm_case(Case& c) {
  c.expect_output_and_gradients(local_response_norm(
      c.input("x"), c.integer("size"), c.number("alpha"), c.number("beta"), c.number("k")));
}

}  // namespace

Checks breadth_image_checks() {
  return {{"conv1d", conv1d_case},
          {"conv3d", conv3d_case},
          {"conv_transpose1d", conv_transpose_case<1, conv_transpose1d>},
          {"conv_transpose2d", conv_transpose_case<2, conv_transpose2d>},
          {"conv_transpose3d", conv_transpose_case<3, conv_transpose3d>},
          {"max_pool1d", max_pool_case<1>},
          {"max_pool2d", max_pool_case<2>},
          {"max_pool3d", max_pool_case<3>},
          {"avg_pool1d", avg_pool_case<1>},
          {"avg_pool2d", avg_pool_case<2>},
          {"avg_pool3d", avg_pool_case<3>},
          {"adaptive_max_pool2d", adaptive_max_case},
          {"adaptive_avg_pool1d", adaptive_avg_case<1>},
          {"adaptive_avg_pool3d", adaptive_avg_case<3>},
          {"interpolate", interpolate_case},
          {"pad", pad_case},
          {"pixel_shuffle", pixel_shuffle_case},
          {"group_norm", group_norm_case},
          {"instance_norm", instance_norm_case},
          {"local_response_norm", local_response_norm_case}};
}

}  // namespace lockstep::test
