// In a steady loop an operation reaches neither operator new nor the system's allocator.
#include <gtest/gtest.h>
#include <support/allocation_counter.hpp>

#include <lockstep/autograd/functional/linear.hpp>
#include <lockstep/autograd/functional/shape.hpp>
#include <lockstep/tensor/runtime/caching_allocator.hpp>
#include <lockstep/tensor/stream.hpp>

#include "gradient_check.hpp"
#include "operations/operations.hpp"

namespace lockstep::test {
namespace {

/// `step` ends with a wait for `device`, which holds the tensors.
template <class Step>
void expect_no_allocation(const char* name, Device device, const Step& step) {
  for (int warm_up = 0; warm_up < 3; ++warm_up) step();
  const auto of_tensors = [&] {
    return memory_stats().system_allocations + memory_stats(device).system_allocations;
  };
  const auto calls = allocation_count(), tensors = of_tensors();
  for (int i = 0; i < 20; ++i) step();
  EXPECT_EQ(allocation_count() - calls, 0) << name << " calls operator new";
  EXPECT_EQ(of_tensors() - tensors, 0) << name << " allocates tensors";
}

struct Place {
  DType dtype;
  Device device;
};

class SteadyLoop : public testing::TestWithParam<Place> {};

TEST_P(SteadyLoop, AllocatesNothing) {
  const auto [dtype, device] = GetParam();
  for (const Operation& operation : all_operations()) {
    const Inputs inputs = make_inputs(operation, dtype, device);
    const std::int64_t n = operation.apply(inputs).data().numel();
    const Variable upstream(random_tensor({1, n}, 60).to(dtype).to(device));
    const auto backward = [&] {
      linear(reshape(operation.apply(inputs), {1, n}), upstream, {}).backward();
      current_stream(inputs[0].data().device()).synchronize();
    };
    // Accumulates from the second pass on, like the second use of a parameter.
    expect_no_allocation(operation.name, device, backward);
    expect_no_allocation(operation.name, device, [&] {
      for (const Variable& input : inputs) input.zero_grad();
      backward();
    });
    if (device.type == DeviceType::sim) CachingAllocator::of(device).flush();
  }
}

TEST_P(SteadyLoop, OfRetainedGraphsAllocatesNothing) {
  const auto [dtype, device] = GetParam();
  for (const Operation& operation : linear_operations()) {
    const Inputs inputs = make_inputs(operation, dtype, device);
    const std::int64_t n = operation.apply(inputs).data().numel();
    const Variable upstream(random_tensor({1, n}, 60).to(dtype).to(device));
    expect_no_allocation(operation.name, device, [&] {
      const Variable loss = linear(reshape(operation.apply(inputs), {1, n}), upstream, {});
      loss.backward(1.0, true);
      loss.backward();
      current_stream(inputs[0].data().device()).synchronize();
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Floating, SteadyLoop,
                         testing::Values(Place{DType::f32, {}}, Place{DType::f64, {}},
                                         Place{DType::f32, {DeviceType::sim, 0}}));

}  // namespace
}  // namespace lockstep::test
