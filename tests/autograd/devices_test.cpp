// Every operation on a device: on a simulated one output and derivatives have the host's bits, on a
// GPU they are close, or it refuses in a sentence.
#include <gtest/gtest.h>

#include <cctype>
#include <cmath>
#include <ostream>
#include <string>
#include <vector>

#include <lockstep/autograd/backward.hpp>
#include <lockstep/autograd/functional/arithmetic.hpp>
#include <lockstep/autograd/functional/embedding.hpp>
#include <lockstep/autograd/functional/embedding_bag.hpp>
#include <lockstep/autograd/functional/loss.hpp>
#include <lockstep/autograd/functional/reduction.hpp>
#include <lockstep/autograd/functional/regression_loss.hpp>
#include <lockstep/autograd/functional/shape.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/tensor/kernels/conv/channel_blocks.hpp>
#include <lockstep/tensor/runtime/caching_allocator.hpp>
#include <lockstep/tensor/runtime/simulated_runtime.hpp>
#include <support/gpu_stand_in.hpp>
#include <support/test_devices.hpp>

#include "gradient_check.hpp"
#include "operations/operations.hpp"
#include "weighted_sum.hpp"

namespace lockstep::test {
namespace {

constexpr Device sim{DeviceType::sim, 0};

/// Of several tensors.
using Numbers = std::vector<std::vector<double>>;

/// What an operation gives on one device.
class Results {
 public:
  explicit Results(Device device) : device_(device) {}

  void add(const Tensor& t) {
    EXPECT_EQ(t.device(), device_);
    values_.push_back(t.to(DType::f64).to_vector<double>());
  }
  [[nodiscard]] const Numbers& values() const { return values_; }

 private:
  Device device_;
  Numbers values_;
};

Numbers output_and_gradients(const Operation& operation, DType dtype, Device device) {
  Results results(device);
  const Inputs inputs = make_inputs(operation, dtype, device);
  const Variable out = operation.apply(inputs);
  results.add(out.data());
  weighted_sum(out, random_tensor(out.shape(), 60).to(dtype).to(device)).backward();
  for (const Variable& input : inputs) results.add(input.grad());
  return results.values();
}

/// Empty for an operation that has none.
Numbers second_derivatives(const Operation& operation, Device device) {
  Results results(device);
  const Inputs inputs = make_inputs(operation, DType::f64, device);
  const auto constant = [&](const Shape& shape, std::uint64_t seed) {
    return Variable(random_tensor(shape, seed).to(device));
  };
  const Variable out = operation.apply(inputs);
  std::vector<Variable> gradients;
  try {
    gradients = grad(sum(out * constant(out.shape(), 60)), inputs, {.create_graph = true});
  } catch (const ShapeError&) {
    throw;
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("has no second derivative"), std::string::npos)
        << error.what();
    return {};
  }
  Variable total(Tensor::zeros({}, DType::f64, device));
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    total = total + sum(gradients[i] * constant(inputs[i].shape(), 61 + i)) + 0.0 * sum(inputs[i]);
  }
  results.add(total.data());
  total.backward();
  for (const Variable& input : inputs) results.add(input.grad());
  return results.values();
}

/// Operations that arrange images in channel blocks, which are others on a device, or none: there
/// the same is computed in another order.
bool arranges_blocks(const Operation& operation) {
  return std::string(operation.name).ends_with("_blocks");
}

/// Every tensor. A device opens and closes what it keeps around each wait: to keep nothing of one
/// operation for the next saves nine tenths of the time.
void expect_all_like_host(Device device, const Numbers& found, const Numbers& expected,
                          double tolerance) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t t = 0; t < found.size(); ++t) {
    SCOPED_TRACE("tensor " + std::to_string(t));
    expect_like_host(device, found[t], expected[t], tolerance);
  }
  CachingAllocator::of(device).flush();
}

struct OperationCase {
  Operation operation;
  DType dtype;
  Device device;
};

void PrintTo(const OperationCase& one, std::ostream* out) { *out << one.operation.name; }

std::string name_of_case(const testing::TestParamInfo<OperationCase>& info) {
  std::string name = info.param.operation.name;
  for (char& c : name) {
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  }
  return name + "_" + std::string(name_of(info.param.dtype)) + "_" +
         std::string(name_of(info.param.device.type));
}

std::vector<OperationCase> cases_in(const std::vector<DType>& dtypes) {
  std::vector<OperationCase> cases;
  for (const Device device : devices_to_test()) {
    for (const Operation& operation : all_operations()) {
      for (const DType dtype : dtypes) {
        if (arranges_blocks(operation) && is_half(dtype)) continue;
        cases.push_back({operation, dtype, device});
      }
    }
  }
  return cases;
}

class EveryOperation : public testing::TestWithParam<OperationCase> {};

TEST_P(EveryOperation, EqualsTheHostsOnADevice) {
  const auto& [operation, dtype, device] = GetParam();
  const Numbers expected = output_and_gradients(operation, dtype, {});
  SimulatedRuntime::instance().set_seed(expected.front().size());
  Numbers found;
  if (!runs_on(device, [&] { found = output_and_gradients(operation, dtype, device); })) return;
  const bool is_gpu = device.type == DeviceType::cuda;
  if (is_gpu || !arranges_blocks(operation) || channel_block() == 0 || dtype == DType::f64) {
    expect_all_like_host(device, found, expected, gpu_tolerance(dtype));
    return;
  }
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t t = 0; t < found.size(); ++t) {
    ASSERT_EQ(found[t].size(), expected[t].size());
    for (std::size_t i = 0; i < found[t].size(); ++i) {
      ASSERT_NEAR(found[t][i], expected[t][i], 1e-4) << "tensor " << t;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Floating, EveryOperation,
                         testing::ValuesIn(cases_in({DType::f32, DType::f64, DType::bf16})),
                         name_of_case);

class SecondDerivatives : public testing::TestWithParam<OperationCase> {};

TEST_P(SecondDerivatives, EqualTheHostsOnADevice) {
  const auto& [operation, dtype, device] = GetParam();
  Numbers found;
  if (!runs_on(device, [&] { found = second_derivatives(operation, device); })) return;
  expect_all_like_host(device, found, second_derivatives(operation, {}), gpu_tolerance(dtype));
}

INSTANTIATE_TEST_SUITE_P(Operations, SecondDerivatives, testing::ValuesIn(cases_in({DType::f64})),
                         name_of_case);

TEST(EveryOperationOnADevice, RunsByTheKernelsOfAGpu) {
  const GpuStandIn gpu;
  for (const Operation& operation : all_operations()) {
    SCOPED_TRACE(operation.name);
    CachingAllocator::of(sim).flush();
    const Numbers found = output_and_gradients(operation, DType::f64, sim);
    const Numbers expected = output_and_gradients(operation, DType::f64, {});
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t t = 0; t < found.size(); ++t) {
      ASSERT_EQ(found[t].size(), expected[t].size());
      for (std::size_t i = 0; i < found[t].size(); ++i)
        ASSERT_NEAR(found[t][i], expected[t][i], 1e-12);
    }
  }
}

/// Every input but one on `device`, that one on `other`.
void expect_refused(const Operation& operation, Device device, Device other) {
  for (std::size_t i = 0; i < operation.inputs.size() && operation.inputs.size() > 1; ++i) {
    SCOPED_TRACE("input " + std::to_string(i));
    Inputs inputs = make_inputs(operation, DType::f32, device);
    inputs[i] = make_inputs(operation, DType::f32, other)[i];
    try {
      static_cast<void>(operation.apply(inputs).data().to(Device{}));
      ADD_FAILURE() << "operands of two devices were taken";
    } catch (const ShapeError& error) {
      EXPECT_NE(std::string(error.what()).find("host"), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find("sim:0"), std::string::npos) << error.what();
    }
  }
}

TEST(EveryOperationOnADevice, RefusesATensorOfAnotherInASentenceWithBothNames) {
  for (const Operation& operation : all_operations()) {
    SCOPED_TRACE(operation.name);
    expect_refused(operation, sim, {});
    expect_refused(operation, {}, sim);
    CachingAllocator::of(sim).flush();
  }
}

TEST(Devices, IndicesAndTargetsOnAnotherDeviceAreRefused) {
  const Variable x(Tensor::zeros({4, 3}, DType::f32, sim)), here(Tensor::zeros({4, 3}));
  const Tensor index = Tensor::zeros({4, 1}, DType::i64), row = index.reshape({4});
  EXPECT_THROW(static_cast<void>(cross_entropy(x, row)), ShapeError);
  EXPECT_THROW(static_cast<void>(nll_loss(x, row)), ShapeError);
  EXPECT_THROW(static_cast<void>(embedding(index, x)), ShapeError);
  EXPECT_THROW(static_cast<void>(embedding_bag(index, x, {}, BagMode::sum)), ShapeError);
  EXPECT_THROW(static_cast<void>(gather(x, 1, index)), ShapeError);
  EXPECT_THROW(static_cast<void>(cross_entropy(here, row.to(sim))), ShapeError);
  EXPECT_THROW(static_cast<void>(embedding(index.to(sim), here)), ShapeError);
  EXPECT_THROW(static_cast<void>(gather(here, 1, index.to(sim))), ShapeError);
}

/// What the first item() throws after `loss` of x on the device, or the loss itself on the host.
template <class Loss>
std::string refusal(const Tensor& x, Device where, const Loss& loss) {
  try {
    static_cast<void>(loss(x.to(where), Tensor::full({3, 5000}, 0.5).to(where)).item());
  } catch (const InputError& error) {
    return error.what();
  }
  return "nothing was thrown";
}

TEST(Devices, NumbersOutOfRangeAreReportedLateWithTheHostsMessage) {
  const auto bce = [](const Tensor& x, const Tensor& t) {
    return binary_cross_entropy(Variable(x), t);
  };
  const auto gaussian = [](const Tensor& x, const Tensor& t) {
    return gaussian_nll_loss(Variable(t), t, Variable(x));
  };
  const auto expect_told = [](const auto& loss, double wrong, const std::string& part) {
    const Tensor x = Tensor::full({3, 5000}, 0.25);
    x.reshape({15000}).slice(0, 1).fill(NAN);  // goes through
    EXPECT_EQ(refusal(x, sim, loss), "nothing was thrown");
    for (const std::int64_t at : {7001, 14999}) x.reshape({15000}).slice(at, at + 1).fill(wrong);
    const std::string told = refusal(x, {}, loss);
    EXPECT_NE(told.find("element 7001 is " + part), std::string::npos) << told;
    EXPECT_EQ(refusal(x, sim, loss), told);
    EXPECT_EQ(Tensor::full({1}, 1.0, DType::f32, sim).item(), 1.0) << "it is told once";
  };
  expect_told(bce, 1.5, "1.5");
  expect_told(bce, -0.25, "-0.25");
  expect_told(gaussian, -2.0, "-2.0");
}

}  // namespace
}  // namespace lockstep::test
