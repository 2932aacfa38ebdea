// linear_cross_entropy by products of a GPU's library. On a simulated device a stand-in computes
// like a GPU and counts.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include <lockstep/autograd/backward.hpp>
#include <lockstep/autograd/functional/linear_cross_entropy.hpp>
#include <lockstep/autograd/functional/reduction.hpp>
#include <lockstep/tensor/sum_dtype.hpp>
#include <support/gpu_stand_in.hpp>
#include <support/test_devices.hpp>

#include "sixteen_bits.hpp"

namespace lockstep::test {
namespace {

struct LossCase {
  std::int64_t classes;
  DType dtype;
  LossGradients when = LossGradients::in_forward;
  Reduction reduction = Reduction::mean;
  double label_smoothing = 0;
  bool weighs_classes = false;
  std::int64_t rows = 40;
};

Tensor waves(const Shape& shape, double step, DType dtype, Device device) {
  std::vector<double> values(static_cast<std::size_t>(shape.numel()));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = std::sin(step * static_cast<double>(i + 1));
  }
  return Tensor::from(values).reshape(shape).to(dtype).to(device);
}

/// Of two passes: the loss, and the gradients of x and the weight, each the sum of both.
std::vector<std::vector<double>> train(const LossCase& c, Device device) {
  constexpr std::int64_t width = 16;
  const std::int64_t rows = c.rows;
  const Variable x(waves({rows, width}, 0.7, c.dtype, device), true),
      weight(waves({c.classes, width}, 1.3, c.dtype, device), true);
  std::vector<std::int64_t> targets(static_cast<std::size_t>(rows));
  for (std::size_t r = 0; r < targets.size(); ++r) {
    targets[r] = static_cast<std::int64_t>(r * 5 + 2) % c.classes;
  }
  targets[3] = -100;
  LossOptions options{.reduction = c.reduction, .label_smoothing = c.label_smoothing};
  if (c.weighs_classes) {
    options.class_weight = waves({c.classes}, 0.3, sum_dtype(c.dtype), Device{}).to(device);
  }
  Variable loss;
  for (int pass = 0; pass < 2; ++pass) {
    loss = linear_cross_entropy(x, weight, Tensor::from(targets).to(device), options, c.when);
    if (loss.data().numel() > 1) loss = sum(loss);
    loss.backward();
  }
  return {numbers(loss.data()), numbers(x.grad()), numbers(weight.grad())};
}

/// The host keeps logits in f32.
void expect_near(const std::vector<std::vector<double>>& found,
                 const std::vector<std::vector<double>>& expected, DType dtype) {
  const double part = dtype == DType::bf16 ? 2e-2 : dtype == DType::f16 ? 4e-3 : 1e-5;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    SCOPED_TRACE(i);
    ASSERT_EQ(found[i].size(), expected[i].size());
    double largest = 0;
    for (const double number : expected[i]) largest = std::max(largest, std::abs(number));
    for (std::size_t k = 0; k < expected[i].size(); ++k) {
      EXPECT_NEAR(found[i][k], expected[i][k], part * largest);
    }
  }
}

class DeviceLoss : public testing::TestWithParam<Device> {
 protected:
  DeviceLoss() {
    if (counts()) stand_in_.emplace();
  }
  [[nodiscard]] static bool counts() { return GetParam().type == DeviceType::sim; }

  static void expect_like_host(const LossCase& c, bool has_ragged_rows) {
    SCOPED_TRACE(testing::Message() << c.classes << " classes, " << name_of(c.dtype));
    const int before = GpuStandIn::products_with_ragged_rows();
    expect_near(train(c, GetParam()), train(c, {}), c.dtype);
    if (counts()) {
      EXPECT_EQ(GpuStandIn::products_with_ragged_rows() > before, has_ragged_rows);
    }
  }

 private:
  std::optional<GpuStandIn> stand_in_;
};

INSTANTIATE_TEST_SUITE_P(Devices, DeviceLoss, testing::ValuesIn(devices_to_test()),
                         name_of_device_case);

TEST_P(DeviceLoss, RowsOfLogitsIn16BitsBeginAtMultiplesOf16BytesForAnyNumberOfClasses) {
  for (const DType dtype : narrow_types) {
    for (const std::int64_t classes : {1, 9, 13, 16, 303}) {
      for (const LossGradients when : {LossGradients::in_forward, LossGradients::in_backward}) {
        expect_like_host({.classes = classes, .dtype = dtype, .when = when}, false);
      }
    }
    for (const Reduction reduction : {Reduction::sum, Reduction::none}) {
      expect_like_host({.classes = 303, .dtype = dtype, .reduction = reduction}, false);
    }
    expect_like_host({.classes = 303, .dtype = dtype, .weighs_classes = true}, false);
  }
}

// Its logits are where the gradient of the chunk before was.
TEST_P(DeviceLoss, EachChunkOfRowsHasTheFurtherColumns) {
  for (const LossGradients when : {LossGradients::in_forward, LossGradients::in_backward}) {
    expect_like_host({.classes = 9, .dtype = DType::bf16, .when = when, .rows = 8192 + 70}, false);
  }
}

TEST_P(DeviceLoss, SmoothedLabelsHaveNoFurtherColumns) {
  expect_like_host({.classes = 13, .dtype = DType::bf16, .label_smoothing = 0.1}, true);
  expect_like_host(
      {.classes = 13, .dtype = DType::bf16, .label_smoothing = 0.1, .weighs_classes = true}, true);
  expect_like_host({.classes = 13, .dtype = DType::f32, .label_smoothing = 0.1}, false);
}

}  // namespace
}  // namespace lockstep::test
