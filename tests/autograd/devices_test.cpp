// Every operation on a simulated device: output and gradients have the host's bits.
#include <gtest/gtest.h>

#include <string>

#include <lockstep/tensor/kernels/conv/channel_blocks.hpp>
#include <lockstep/tensor/runtime/simulated_runtime.hpp>

#include "gradient_check.hpp"
#include "operations/operations.hpp"
#include "weighted_sum.hpp"

namespace lockstep::test {
namespace {

/// Output and gradients of one operation, one after the other.
std::vector<double> run(const Operation& operation, DType dtype, Device device) {
  const Inputs inputs = make_inputs(operation, dtype, device);
  const Variable out = operation.apply(inputs);
  EXPECT_EQ(out.data().device(), device) << operation.name;
  const auto values = [](const Tensor& t) { return t.to(DType::f64).to_vector<double>(); };
  auto all = values(out.data());
  weighted_sum(out, random_tensor(out.shape(), 60).to(dtype).to(device)).backward();
  for (const Variable& input : inputs) {
    EXPECT_EQ(input.grad().device(), device) << operation.name;
    const auto gradient = values(input.grad());
    all.insert(all.end(), gradient.begin(), gradient.end());
  }
  return all;
}

/// Operations that arrange images in channel blocks, f32 only, which no device does: there the same
/// is computed in another order.
bool arranges_blocks(const Operation& operation) {
  return std::string(operation.name).ends_with("_blocks");
}

class Devices : public testing::TestWithParam<DType> {};

TEST_P(Devices, HaveTheBitsOfTheHost) {
  std::uint64_t seed = 0;
  for (const Operation& operation : all_operations()) {
    if (arranges_blocks(operation) && is_half(GetParam())) continue;
    const auto expected = run(operation, GetParam(), {});
    SimulatedRuntime::instance().set_seed(++seed);
    const auto found = run(operation, GetParam(), {DeviceType::sim, 0});
    ASSERT_EQ(found.size(), expected.size()) << operation.name;
    if (!arranges_blocks(operation) || channel_block() == 0 || GetParam() == DType::f64) {
      EXPECT_EQ(found, expected) << operation.name;
      continue;
    }
    for (std::size_t i = 0; i < found.size(); ++i) {
      ASSERT_NEAR(found[i], expected[i], 1e-4) << operation.name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Floating, Devices, testing::Values(DType::f32, DType::f64, DType::bf16));

}  // namespace
}  // namespace lockstep::test
