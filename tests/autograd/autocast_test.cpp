#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <lockstep/autograd/autocast.hpp>
#include <lockstep/autograd/functional.hpp>
#include <lockstep/tensor/half.hpp>

namespace lockstep {
namespace {

Tensor waves(const Shape& shape, double phase) {
  std::vector<float> numbers(static_cast<std::size_t>(shape.numel()));
  for (std::size_t i = 0; i < numbers.size(); ++i)
    numbers[i] = static_cast<float>(std::sin(0.7 * static_cast<double>(i) + phase));
  return Tensor::from(numbers, shape);
}

Tensor rounded(const Tensor& x) { return x.to(DType::bf16).to(DType::f32); }

/// ||a - b|| / ||b||.
double relative(const Tensor& a, const Tensor& b) {
  const auto x = a.to(DType::f64).to_vector<double>(), y = b.to(DType::f64).to_vector<double>();
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    difference += (x[i] - y[i]) * (x[i] - y[i]);
    size += y[i] * y[i];
  }
  return std::sqrt(difference / size);
}

TEST(Autocast, BackwardIsInThePrecisionOfForwardWhereverItRuns) {
  const Variable x(waves({4, 8}, 0.1), true), w(waves({3, 8}, 0.5), true);
  Variable y;
  {
    const Autocast autocast(Precision::bf16);
    y = linear(x, w, {});
  }
  EXPECT_EQ(y.data().dtype(), DType::f32);
  EXPECT_EQ(product_precision(), Precision::f32);
  const Tensor upstream = waves({4, 3}, 0.9);
  sum(y * Variable(upstream)).backward();
  // The same of rounded operands, in f32.
  const Variable rx(rounded(x.data()), true), rw(rounded(w.data()), true);
  const Variable ry = linear(rx, rw, {});
  sum(ry * Variable(rounded(upstream))).backward();
  EXPECT_LT(relative(y.data(), ry.data()), 1e-6);
  EXPECT_LT(relative(x.grad(), rx.grad()), 1e-6);
  EXPECT_LT(relative(w.grad(), rw.grad()), 1e-6);
  // And not of the operands as they are.
  EXPECT_GT(relative(y.data(), linear(x, w, {}).data()), 1e-4);
}

/// A small network of every operation that has products.
Variable network(const Variable& x, const std::vector<Variable>& w) {
  const Variable h = gelu(linear(x, w[0], w[1]));
  const Variable heads = reshape(h, {2, 1, 8, 8});
  const Variable seen = scaled_dot_product_attention(heads, heads, heads, {.causal = true});
  const Variable y = matmul(reshape(seen, {16, 8}), w[2]);
  return sum(y * y);
}

using Network = std::function<Variable(const std::vector<Variable>&)>;

/// Of the values, in `dtype` and with products in `precision`.
std::vector<Tensor> gradients(const Network& network, const std::vector<Tensor>& values,
                              DType dtype, Precision precision) {
  std::vector<Variable> v;
  for (const Tensor& value : values) v.emplace_back(value.to(dtype).clone(), true);
  {
    const Autocast autocast(precision);
    network(v).backward();
  }
  std::vector<Tensor> found;
  for (const Variable& one : v) found.push_back(one.grad());
  return found;
}

/// They are those in double within `units` roundings of 16 bits, and not closer than rounding.
void expect_gradients_of_16_bits(const Network& network, const std::vector<Tensor>& values,
                                 double units = 16) {
  const auto exact = gradients(network, values, DType::f64, Precision::bf16);
  // In f32 8e-6: what a network makes of a rounding.
  for (const auto& [precision, unit] : {std::pair{Precision::f32, 0x1p-19},
                                        {Precision::bf16, 0x1p-9},
                                        {Precision::fp16, 0x1p-12}}) {
    const auto found = gradients(network, values, DType::f32, precision);
    for (std::size_t i = 0; i < found.size(); ++i) {
      EXPECT_EQ(found[i].dtype(), DType::f32);
      EXPECT_LT(relative(found[i], exact[i]), units * unit) << i;
      if (precision != Precision::f32) {
        EXPECT_GT(relative(found[i], exact[i]), unit / 64) << i;
      }
    }
  }
}

TEST(Autocast, GradientsAreThoseInDoubleWithinTheRoundingOf16Bits) {
  expect_gradients_of_16_bits(
      [](const auto& v) {
        return network(v[0], {v[1], v[2], v[3]});
      },
      {waves({16, 12}, 0), waves({8, 12}, 1), waves({8}, 2), waves({8, 5}, 3)});
}

TEST(Autocast, GradientsOfConvolutionsAreToo) {
  // Few channels and many, as a stride, groups, volumes and sequences take other ways.
  expect_gradients_of_16_bits(
      [](const auto& v) {
        const Variable h = tanh(conv2d(v[0], v[1], v[2], {.padding = {1, 1}}));
        const Variable y = conv2d(h, v[3], {}, {.stride = {2, 2}});
        return sum(y * y);
      },
      {waves({2, 3, 9, 9}, 0), waves({64, 3, 3, 3}, 1), waves({64}, 2), waves({64, 64, 3, 3}, 3)},
      32);
  expect_gradients_of_16_bits(
      [](const auto& v) {
        const Variable y = conv2d(v[0], v[1], {}, {.padding = {1, 1}, .groups = 2});
        return sum(y * y);
      },
      {waves({2, 64, 8, 8}, 0), waves({32, 32, 3, 3}, 1)});
  expect_gradients_of_16_bits(
      [](const auto& v) {
        const Variable y = conv3d(v[0], v[1], v[2]);
        return sum(y * y);
      },
      {waves({2, 16, 5, 5, 5}, 0), waves({16, 16, 3, 3, 3}, 1), waves({16}, 2)});
  expect_gradients_of_16_bits(
      [](const auto& v) {
        const Variable y = conv1d(v[0], v[1], v[2]);
        return sum(y * y);
      },
      {waves({2, 16, 20}, 0), waves({24, 16, 3}, 1), waves({24}, 2)});
}

TEST(Autocast, GradientsOfImagesInChannelBlocksAreToo) {
  const auto network = [](const auto& v) {
    const Variable x = to_channel_blocks(v[0]);
    const Variable y = conv2d(x, v[1], {}, {.padding = {1, 1}}, Layout::channel_blocks);
    return from_channel_blocks(y * y);
  };
  const std::vector<Tensor> values{waves({2, 64, 8, 8}, 0), waves({64, 64, 3, 3}, 1)};
  const auto blocks = gradients([&](const auto& v) { return sum(network(v)); }, values, DType::f32,
                                Precision::bf16);
  const auto plain = gradients(
      [](const auto& v) {
        const Variable y = conv2d(v[0], v[1], {}, {.padding = {1, 1}});
        return sum(y * y);
      },
      values, DType::f32, Precision::bf16);
  for (std::size_t i = 0; i < plain.size(); ++i) EXPECT_LT(relative(blocks[i], plain[i]), 1e-3);
}

TEST(Autocast, GradientsOfRecurrentLayersAreToo) {
  for (const auto& [mode, gates] :
       {std::pair{RnnMode::rnn_tanh, 1}, {RnnMode::lstm, 4}, {RnnMode::gru, 3}}) {
    expect_gradients_of_16_bits(
        [mode = mode](const auto& v) {
          const Variable h =
              recurrent_layer(mode, v[0], {}, {}, {v[1] * 0.2, v[2] * 0.2, v[3], v[4]}).output;
          return sum(h * h);
        },
        {waves({5, 3, 8}, 0), waves({gates * 6, 8}, 1), waves({gates * 6, 6}, 2),
         waves({gates * 6}, 3), waves({gates * 6}, 4)},
        32);
  }
}

TEST(Autocast, OperandsAreRoundedOnceAndKept) {
  // What backward multiplies is what forward did, whatever became of the weight since.
  const Variable x(waves({4, 8}, 0.1), true), w(waves({3, 8}, 0.5), true);
  const Autocast autocast(Precision::bf16);
  const Variable y = linear(x, w, {});
  const Tensor expected = matmul(Variable(Tensor::full({4, 3}, 1.0)), w).data().clone();
  w.data().zero();
  sum(y).backward();
  EXPECT_EQ(relative(x.grad(), expected), 0.0);
}

}  // namespace
}  // namespace lockstep
