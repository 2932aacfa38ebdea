#include <gtest/gtest.h>

#include <lockstep/autograd/functional/conv.hpp>

#include "case.hpp"

namespace lockstep::test {
namespace {

void conv2d_case(Case& c) {
  const Conv2dOptions options{c.pair("stride"), c.pair("padding"), c.pair("dilation"),
                              c.integer("groups")};
  const Variable x = c.input("x"), weight = c.input("weight"), bias = c.input("bias");
  ASSERT_EQ(bias.defined(), c.number("has_bias") != 0);
  c.expect_output_and_gradients(conv2d(x, weight, bias, options));
}

void max_pool2d_case(Case& c) {
  const SquareWindow window{c.integer("kernel"), c.integer("stride"), c.integer("padding")};
  const Variable x = c.input("x"), y = max_pool2d(x, {.kernel = window.kernel,
                                                      .stride = window.stride,
                                                      .padding = window.padding});
  c.expect_output_and_gradients(y);
  c.expect_exact(y.data(), "out_f64");
  const Tensor indices = Tensor::empty(y.shape(), DType::i32, c.device());
  max_pool2d_forward(x.data(), window, Tensor::empty(y.shape(), c.dtype(), c.device()), indices);
  c.expect_exact(indices, "indices");
}

void avg_pool2d_case(Case& c) {
  const Pool2dOptions options{c.integer("kernel"), c.integer("stride"), c.integer("padding")};
  const Variable x = c.input("x");
  c.expect_output_and_gradients(avg_pool2d(x, options, c.number("count_include_pad") != 0));
}

void adaptive_avg_pool2d_case(Case& c) {
  const Variable x = c.input("x");
  c.expect_output_and_gradients(adaptive_avg_pool2d(x, c.integer("output_size")));
}

}  // namespace

Checks conv_checks() {
  return {{"conv2d", conv2d_case},
          {"max_pool2d", max_pool2d_case},
          {"avg_pool2d", avg_pool2d_case},
          {"adaptive_avg_pool2d", adaptive_avg_pool2d_case}};
}

}  // namespace lockstep::test
