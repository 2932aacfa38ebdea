// Gradients of linear's weight and bias by one product of a GPU's library: the same numbers as by
// two. On a simulated device a stand-in computes like a GPU and counts.
#include <gtest/gtest.h>

#include <optional>
#include <span>
#include <vector>

#include <lockstep/autograd/autocast.hpp>
#include <lockstep/autograd/backward.hpp>
#include <lockstep/autograd/functional/in_projection.hpp>
#include <lockstep/autograd/functional/linear.hpp>
#include <support/gpu_stand_in.hpp>
#include <support/test_devices.hpp>

#include "sixteen_bits.hpp"

namespace lockstep::test {
namespace {

/// Whole eighths of at most 1, other ones for each seed: their sums and products are exact.
Tensor in_eighths(const Shape& shape, int seed, DType dtype, Device device) {
  std::vector<double> values(static_cast<std::size_t>(shape.numel()));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = (static_cast<double>((i * 7 + static_cast<std::size_t>(seed) * 5) % 17) - 8) / 8;
  }
  return Tensor::from(values).reshape(shape).to(dtype).to(device);
}

struct LinearCase {
  std::int64_t out = 4;
  bool trains_weight = true, trains_bias = true;
  DType dtype = DType::f32;
  Precision autocast = Precision::bf16;
};

struct LinearResult {
  std::vector<std::vector<double>> numbers;  ///< output and gradients
  std::vector<int> products;                 ///< of each pass
};

/// Two backward passes through x[6, 5, 8]'s layer.
LinearResult train(const LinearCase& c, Device device) {
  const auto leaf = [&](const Shape& shape, int seed, bool trains) {
    return Variable(in_eighths(shape, seed, c.dtype, device), trains);
  };
  const std::vector<Variable> v{leaf({6, 5, 8}, 1, true), leaf({c.out, 8}, 2, c.trains_weight),
                                leaf({c.out}, 3, c.trains_bias)};
  Variable y;
  {
    const Autocast autocast(c.autocast);
    y = linear(v[0], v[1], v[2]);
  }
  LinearResult result{{numbers(y.data())}, {}};
  const Tensor upstream = in_eighths(y.shape(), 4, y.data().dtype(), device);
  for (int pass = 0; pass < 2; ++pass) {
    const int before = GpuStandIn::runs();
    backward(std::span(&y, 1), std::span(&upstream, 1), {.retain_graph = true});
    result.products.push_back(GpuStandIn::runs() - before);
  }
  for (const Variable& of : v) {
    if (of.requires_grad()) result.numbers.push_back(numbers(of.grad()));
  }
  return result;
}

class DeviceLinear : public testing::TestWithParam<Device> {
 protected:
  DeviceLinear() {
    if (counts()) stand_in_.emplace();
  }
  [[nodiscard]] static bool counts() { return GetParam().type == DeviceType::sim; }

  static void expect_like_host(const LinearCase& c, const std::vector<int>& products) {
    const LinearResult found = train(c, GetParam());
    EXPECT_EQ(found.numbers, train(c, {}).numbers);
    if (counts()) {
      EXPECT_EQ(found.products, products);
    }
  }

 private:
  std::optional<GpuStandIn> stand_in_;
};

INSTANTIATE_TEST_SUITE_P(Devices, DeviceLinear, testing::ValuesIn(devices_to_test()),
                         name_of_device_case);

TEST_P(DeviceLinear, AGradientOfABiasTakesAProductOfItsOwnOnlyWhereItIsAdded) {
  expect_like_host({}, {2, 3});
  expect_like_host({.autocast = Precision::fp16}, {2, 3});
  expect_like_host({.dtype = DType::bf16, .autocast = Precision::f32}, {2, 3});
  expect_like_host({.autocast = Precision::f32}, {2, 3});
}

TEST_P(DeviceLinear, WhatTheLibraryLacksTakesTwoProducts) {
  expect_like_host({.out = 5}, {3, 3});
  expect_like_host({.dtype = DType::f64, .autocast = Precision::f32}, {3, 3});
}

TEST_P(DeviceLinear, AFrozenParameterTakesNoProduct) {
  expect_like_host({.trains_weight = false}, {2, 2});
  expect_like_host({.trains_bias = false}, {2, 2});
}

TEST_P(DeviceLinear, ABiasInF32BesideOperandsOf16BitsSumsWhatTheyRound) {
  const Variable x(Tensor::full({6, 8}, 1, DType::bf16, GetParam())),
      w(Tensor::full({4, 8}, 1, DType::bf16, GetParam()), true),
      b(Tensor::full({4}, 1, DType::f32, GetParam()), true);
  const Variable y = linear(x, w, b);
  const double g = 1 + 0x1p-12;
  const Tensor upstream = Tensor::full({6, 4}, g, DType::f32, GetParam());
  backward(std::span(&y, 1), std::span(&upstream, 1));
  EXPECT_EQ(numbers(b.grad()), std::vector<double>(4, 6 * g));
  EXPECT_EQ(numbers(w.grad()), std::vector<double>(32, 6));
}

TEST_P(DeviceLinear, EachThirdOfAnInProjectionIsLikeALayer) {
  const auto gradients = [](Device device, std::span<const std::size_t> used, int products) {
    std::vector<Variable> v;
    for (const Shape& shape : {Shape{5, 8}, Shape{5, 8}, Shape{5, 8}, Shape{12, 8}, Shape{12}}) {
      v.emplace_back(in_eighths(shape, static_cast<int>(v.size()), DType::f32, device), true);
    }
    std::vector<Variable> roots;
    std::vector<Tensor> upstream;
    {
      const Autocast autocast(Precision::bf16);
      const auto outputs = in_projection(v[0], v[1], v[2], v[3], v[4]);
      for (const std::size_t i : used) {
        roots.push_back(outputs[i]);
        upstream.push_back(in_eighths({5, 4}, static_cast<int>(i), DType::bf16, device));
      }
    }
    const int before = GpuStandIn::runs();
    backward(roots, upstream);
    if (device.type == DeviceType::sim) {
      EXPECT_EQ(GpuStandIn::runs() - before, products);
    }
    std::vector<std::vector<double>> all;
    for (const Variable& of : std::span(v).subspan(3)) all.push_back(numbers(of.grad()));
    return all;
  };
  const auto expect = [&](std::span<const std::size_t> used, int products) {
    EXPECT_EQ(gradients(GetParam(), used, products), gradients({}, used, products));
  };
  expect(std::vector<std::size_t>{0, 1, 2}, 6);
  expect(std::vector<std::size_t>{1}, 2);
}

}  // namespace
}  // namespace lockstep::test
