// linear(gelu(linear(x))) with gelu and its slope as parts of a GPU's products: the numbers of the
// operations one by one. On a simulated device a stand-in computes like a GPU and counts.
#include <gtest/gtest.h>

#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <lockstep/autograd/autocast.hpp>
#include <lockstep/autograd/backward.hpp>
#include <lockstep/autograd/functional/activation.hpp>
#include <lockstep/autograd/functional/arithmetic.hpp>
#include <lockstep/autograd/functional/linear.hpp>
#include <lockstep/autograd/functional/reduction.hpp>
#include <support/gpu_stand_in.hpp>
#include <support/test_devices.hpp>

#include "gradient_check.hpp"
#include "sixteen_bits.hpp"

namespace lockstep::test {
namespace {

struct GeluCase {
  DType dtype = DType::f32;
  Precision autocast = Precision::bf16;
  std::int64_t in = 6, hidden = 16, out = 4;
  std::vector<bool> trains{true, true, true, true, true};
};

std::vector<Variable> mlp_of(const GeluCase& c, Device device) {
  std::vector<Variable> v;
  for (const Shape& shape : {Shape{3, 5, c.in}, Shape{c.hidden, c.in}, Shape{c.hidden},
                             Shape{c.out, c.hidden}, Shape{c.out}}) {
    v.emplace_back(random_tensor(shape, v.size()).to(DType::bf16).to(c.dtype).to(device),
                   c.trains[v.size()]);
  }
  return v;
}

/// Output and gradients of two passes.
std::vector<Tensor> results_of(const GeluCase& c, Device device, bool with_values = true) {
  const auto v = mlp_of(c, device);
  Variable y;
  {
    const Autocast autocast(c.autocast);
    y = linear_gelu_linear(v[0], v[1], v[2], v[3], v[4], with_values);
  }
  const Tensor upstream =
      random_tensor(y.shape(), 9).to(DType::bf16).to(y.data().dtype()).to(device);
  for (int pass = 0; pass < 2; ++pass) {
    backward(std::span(&y, 1), std::span(&upstream, 1), {.retain_graph = true});
  }
  std::vector<Tensor> results{y.data()};
  for (const Variable& of : v) {
    if (of.requires_grad()) {
      results.push_back(of.grad());
    } else {
      EXPECT_FALSE(of.grad().defined());
    }
  }
  return results;
}

class DeviceGelu : public testing::TestWithParam<Device> {
 protected:
  DeviceGelu() {
    if (GetParam().type == DeviceType::sim) stand_in_.emplace();
  }
  /// `products` with gelu or its slope in forward and two passes backward.
  static void expect_near_host(const GeluCase& c, int products) {
    const int before = GpuStandIn::products_with_gelu();
    const auto found = results_of(c, GetParam());
    if (GetParam().type == DeviceType::sim) {
      EXPECT_EQ(GpuStandIn::products_with_gelu() - before, products);
    }
    const auto expected = results_of(c, {});
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
      SCOPED_TRACE(testing::Message() << "tensor " << i);
      expect_like_host(GetParam(), numbers(found[i]), numbers(expected[i]), 2e-2, 2e-2);
      if (i > 0) {
        EXPECT_EQ(found[i].dtype(), c.dtype);
      }
    }
  }

 private:
  std::optional<GpuStandIn> stand_in_;
};

INSTANTIATE_TEST_SUITE_P(Devices, DeviceGelu, testing::ValuesIn(devices_to_test()),
                         name_of_device_case);

TEST_P(DeviceGelu, AndItsSlopeArePartsOfProductsIn16Bits) {
  expect_near_host({}, 3);
  expect_near_host({.autocast = Precision::fp16}, 3);
  for (const DType dtype : narrow_types) {
    expect_near_host({.dtype = dtype, .autocast = Precision::f32}, 3);
  }
}

TEST_P(DeviceGelu, IsAnOperationOfItsOwnElsewhere) {
  expect_near_host({.autocast = Precision::f32}, 0);
  expect_near_host({.hidden = 12}, 0);
  expect_near_host({.in = 5}, 2);   // the stand-in lacks a product of 5 terms
  expect_near_host({.out = 3}, 1);  // and its slope in one of 3
}

TEST_P(DeviceGelu, GivesFrozenParametersNoGradient) {
  expect_near_host({.trains = {true, false, false, true, false}}, 3);
  expect_near_host({.trains = {false, false, false, true, true}}, 1);
  expect_near_host({.trains = {false, false, true, false, false}}, 3);
}

TEST_P(DeviceGelu, WithoutValuesHasTheSameGradients) {
  const auto with = results_of({}, GetParam()), without = results_of({}, GetParam(), false);
  EXPECT_EQ(numbers(without[0]), std::vector<double>(numbers(without[0]).size(), 0.0));
  for (std::size_t i = 1; i < with.size(); ++i) EXPECT_EQ(numbers(without[i]), numbers(with[i]));
}

TEST_P(DeviceGelu, HasSecondDerivatives) {
  const auto second = [](const GeluCase& c, Device device) {
    const auto v = mlp_of(c, device);
    Variable y;
    {
      const Autocast autocast(c.autocast);
      y = linear_gelu_linear(v[0], v[1], v[2], v[3], v[4]);
    }
    y = to(y, DType::f32);
    const Variable slope = grad(sum(y * y * 0.125), v[0], {.create_graph = true});
    const Variable square = sum(to(slope, DType::f32) * to(slope, DType::f32) * 0.125);
    return std::vector<Tensor>{slope.data(), grad(square, v[1], {.retain_graph = true}).data(),
                               grad(square, v[3]).data()};
  };
  for (const GeluCase& c :
       {GeluCase{}, GeluCase{.dtype = DType::bf16, .autocast = Precision::f32}}) {
    const auto found = second(c, GetParam());
    const auto expected = second({.autocast = Precision::f32}, {});
    for (std::size_t i = 0; i < found.size(); ++i) {
      EXPECT_EQ(found[i].dtype(), c.dtype);
      expect_like_host(GetParam(), numbers(found[i]), numbers(expected[i]), 5e-2, 5e-2);
    }
  }
}

}  // namespace
}  // namespace lockstep::test
