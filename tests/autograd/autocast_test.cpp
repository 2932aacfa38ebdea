#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <lockstep/autograd/autocast.hpp>
#include <lockstep/autograd/differentiation.hpp>
#include <lockstep/autograd/functional.hpp>
#include <lockstep/tensor/half.hpp>
#include <lockstep/tensor/storage.hpp>

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
  EXPECT_EQ(y.data().dtype(), DType::bf16);
  EXPECT_EQ(product_precision(), Precision::f32);
  EXPECT_FALSE(autocast_enabled());
  const Tensor upstream = rounded(waves({4, 3}, 0.9));
  sum(to(y, DType::f32) * Variable(upstream)).backward();
  // The same of rounded operands, in f32.
  const Variable rx(rounded(x.data()), true), rw(rounded(w.data()), true);
  const Variable ry = linear(rx, rw, {});
  sum(ry * Variable(upstream)).backward();
  EXPECT_EQ(relative(y.data(), rounded(ry.data())), 0.0);
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
  const Tensor expected =
      matmul(Variable(Tensor::full({4, 3}, 1.0)), Variable(rounded(w.data()))).data();
  const Autocast autocast(Precision::bf16);
  const Variable y = linear(x, w, {});
  w.data().zero();
  sum(y).backward();
  EXPECT_LT(relative(x.grad(), expected), 1e-6);
}

// https://docs.pytorch.org/docs/stable/amp.html#autocast-op-reference
TEST(Autocast, ResultsHaveTheTypesOfPyTorchsAutocast) {
  const Variable x(waves({4, 8}, 0.1), true), w(waves({8, 8}, 0.5), true), b(waves({8}, 0.2), true);
  const Variable heads(waves({1, 2, 4, 8}, 0.3), true);
  const Tensor target = Tensor::zeros({4}, DType::i64);
  for (const auto& [precision, half] :
       {std::pair{Precision::bf16, DType::bf16}, {Precision::fp16, DType::f16}}) {
    const Autocast autocast(precision);
    const auto dtype = [](const Variable& y) { return y.data().dtype(); };
    const Variable h = linear(x, w, b);
    EXPECT_EQ(dtype(h), half);
    EXPECT_EQ(dtype(linear(h, w, b)), half);
    EXPECT_EQ(dtype(matmul(x, w)), half);
    EXPECT_EQ(dtype(in_projection(reshape(x, {1, 4, 8}), reshape(h, {1, 4, 8}),
                                  reshape(h, {1, 4, 8}), concat({w, w, w}, 0), {})[0]),
              half);
    EXPECT_EQ(dtype(scaled_dot_product_attention(heads, heads, heads)), half);
    EXPECT_EQ(dtype(self_attention(reshape(concat({h, h, h}, 1), {1, 4, 24}), 2)), half);
    for (const Variable& y : {relu(h), gelu(h), h + h, h * h, h * 2.0, reshape(h, {32})}) {
      EXPECT_EQ(dtype(y), half);
    }
    for (const Variable& y :
         {h + x, x * x, softmax(h), log_softmax(h), cross_entropy(h, target), nll_loss(h, target),
          linear_cross_entropy(h, w, target), mse_loss(h, x.data()), sum(h), mean(h, {1}), exp(h),
          pow(h, 2.0), layer_norm(h, b, b), rms_norm(h, b),
          conv2d(reshape(x, {1, 1, 4, 8}), reshape(w, {1, 1, 8, 8}), {}, {.padding = {4, 4}})}) {
      EXPECT_EQ(dtype(y), DType::f32);
    }
    const Autocast off(Precision::f32);
    EXPECT_EQ(dtype(linear(x, w, b)), DType::f32);
    EXPECT_EQ(dtype(softmax(h)), half);
  }
}

TEST(Autocast, ConcatOfDifferentFloatingTypesIsOfTheWidest) {
  const Variable x(waves({4, 8}, 0.1), true), w(waves({3, 8}, 0.5), true);
  const Autocast autocast(Precision::bf16);
  const Variable product = linear(x, w, {}), both = concat({product, x}, 1);
  EXPECT_EQ(both.data().dtype(), DType::f32);
  EXPECT_EQ(relative(narrow(both, 1, 0, 3).data(), product.data()), 0.0);
  EXPECT_EQ(concat({product, product}, 1).data().dtype(), DType::bf16);
  EXPECT_EQ(concat({product, to(product, DType::f16)}, 1).data().dtype(), DType::f32);
  EXPECT_EQ(concat({x, to(x, DType::f64)}, 1).data().dtype(), DType::f64);
  sum(both).backward();
  EXPECT_EQ(x.grad().dtype(), DType::f32);
  EXPECT_TRUE(w.grad().defined());
}

/// A teacher's output, computed under Autocast.
TEST(Autocast, ATargetOf16BitsIsTakenAsItsValuesInF32) {
  const Variable x(waves({4, 3}, 0.1), true);
  const Tensor target = waves({4, 3}, 0.7).to(DType::bf16), wide = target.to(DType::f32);
  const Autocast autocast(Precision::bf16);
  const auto losses = [&](const Tensor& t) {
    const Variable positive = sigmoid(x);
    const Tensor share = sigmoid(Variable(t)).data().to(t.dtype());
    return std::vector<double>{
        mse_loss(x, t).item(),
        l1_loss(x, t).item(),
        smooth_l1_loss(x, t).item(),
        huber_loss(x, t).item(),
        binary_cross_entropy_with_logits(x, share).item(),
        binary_cross_entropy_with_logits(x, share, Reduction::mean, share, share).item(),
        kl_div(log_softmax(x, 1), share).item(),
        poisson_nll_loss(x, share).item(),
        gaussian_nll_loss(x, t, positive).item()};
  };
  const auto narrow_losses = losses(target), wide_losses = losses(wide);
  for (std::size_t i = 0; i < wide_losses.size(); ++i)
    EXPECT_NEAR(narrow_losses[i], wide_losses[i], i < 4 || i == 8 ? 0.0 : 0.01) << i;
}

TEST(Autocast, ALossOf16BitLogitsIsNotRounded) {
  const Variable x(waves({64, 16}, 0.1), true), w(waves({10, 16}, 0.5), true);
  const Tensor target = Tensor::full({64}, 3, DType::i64);
  const Autocast autocast(Precision::bf16);
  const Variable logits = linear(x, w, {}), loss = cross_entropy(logits, target);
  const Variable wide(logits.data().to(DType::f32), true);
  const Variable expected = cross_entropy(wide, target);
  EXPECT_LT(relative(loss.data(), expected.data()), 1e-6);
  EXPECT_NE(loss.data().item(), rounded(loss.data()).item());
  const Variable by_logits = grad(loss, logits);
  EXPECT_EQ(by_logits.data().dtype(), DType::bf16);
  expected.backward();
  EXPECT_EQ(relative(by_logits.data(), rounded(wide.grad())), 0.0);
}

TEST(Autocast, ActivationsOfProductsTakeHalfTheMemoryOfF32) {
  const Variable x(waves({2048, 64}, 0.1), true), bias(waves({256}, 0.3), true),
      ones(Tensor::full({64}, 1.0), true);
  const std::vector<Variable> w{Variable(waves({256, 64}, 0.2), true),
                                Variable(waves({64, 256}, 0.4), true)};
  const auto held = [&](Precision precision) {
    const Autocast autocast(precision);
    const std::int64_t before = memory_stats().in_use;
    Variable h = x;
    for (int layer = 0; layer < 4; ++layer) {
      h = h + linear(gelu(linear(layer_norm(h, ones, {}), w[0], bias)), w[1], {});
    }
    return memory_stats().in_use - before;
  };
  // A row of a layer holds 10 x 64 elements. Of these h stays f32, and the norm is held in 16 bits
  // as the product's operand; beside them the rounded weights.
  const std::int64_t of_f32 = held(Precision::f32);
  for (const Precision precision : {Precision::bf16, Precision::fp16}) {
    EXPECT_LT(held(precision), of_f32 * 6 / 10);
  }
}

TEST(Autocast, SecondDerivativesOfProductsAreInF32OfRoundedOperands) {
  const Variable x(waves({4, 8}, 0.1), true), w(waves({3, 8}, 0.5), true);
  const auto penalty = [&](const Variable& in, const Variable& matrix, Precision precision) {
    Variable y;
    {
      const Autocast autocast(precision);
      y = sum(pow(linear(in, matrix, {}), 2.0));
    }
    const Variable slope = grad(y, in, {.create_graph = true});
    sum(slope * slope).backward();
    return matrix.grad();
  };
  const Variable exact_x(x.data().to(DType::f64), true), exact_w(w.data().to(DType::f64), true);
  const Tensor exact = penalty(exact_x, exact_w, Precision::f32);
  const Tensor found = penalty(x, w, Precision::bf16);
  EXPECT_EQ(found.dtype(), DType::f32);
  EXPECT_LT(relative(found, exact), 16 * 0x1p-9);
}

TEST(Autocast, ALossHasSecondDerivativesOutsideTheScopeToo) {
  const Variable x(waves({4, 8}, 0.1), true), w(waves({3, 8}, 0.5), true);
  const Tensor target = Tensor::from(std::vector<std::int64_t>{0, 2, 1, 1}, {4});
  const auto penalty = [&](const Variable& in, const Variable& matrix, Precision precision) {
    Variable loss;
    {
      const Autocast autocast(precision);
      loss = cross_entropy(linear(in, matrix, {}), target);
    }
    const Variable slope = grad(loss, in, {.create_graph = true});
    sum(slope * slope).backward();
    return matrix.grad();
  };
  const Variable exact_x(x.data().to(DType::f64), true), exact_w(w.data().to(DType::f64), true);
  const Tensor exact = penalty(exact_x, exact_w, Precision::f32);
  EXPECT_LT(relative(penalty(x, w, Precision::bf16), exact), 16 * 0x1p-9);
}

}  // namespace
}  // namespace lockstep
