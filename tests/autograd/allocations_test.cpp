// In a steady loop an operation reaches neither operator new nor the system's allocator.
#include <gtest/gtest.h>
#include <support/allocation_counter.hpp>

#include <lockstep/autograd/functional/linear.hpp>
#include <lockstep/autograd/functional/shape.hpp>

#include "gradient_check.hpp"
#include "operations/operations.hpp"

namespace lockstep::test {
namespace {

template <class Step>
void expect_no_allocation(const char* name, const Step& step) {
  for (int warm_up = 0; warm_up < 3; ++warm_up) step();
  const auto calls = allocation_count();
  const auto system = memory_stats().system_allocations;
  for (int i = 0; i < 20; ++i) step();
  EXPECT_EQ(allocation_count() - calls, 0) << name << " calls operator new";
  EXPECT_EQ(memory_stats().system_allocations - system, 0) << name << " allocates tensors";
}

class SteadyLoop : public testing::TestWithParam<DType> {};

TEST_P(SteadyLoop, AllocatesNothing) {
  for (const Operation& operation : all_operations()) {
    const Inputs inputs = make_inputs(operation, GetParam());
    const std::int64_t n = operation.apply(inputs).data().numel();
    const Variable upstream(random_tensor({1, n}, 60).to(GetParam()));
    const auto backward = [&] {
      linear(reshape(operation.apply(inputs), {1, n}), upstream, {}).backward();
    };
    // Accumulates from the second pass on, like the second use of a parameter.
    expect_no_allocation(operation.name, backward);
    expect_no_allocation(operation.name, [&] {
      for (const Variable& input : inputs) input.zero_grad();
      backward();
    });
  }
}

TEST_P(SteadyLoop, OfRetainedGraphsAllocatesNothing) {
  for (const Operation& operation : linear_operations()) {
    const Inputs inputs = make_inputs(operation, GetParam());
    const std::int64_t n = operation.apply(inputs).data().numel();
    const Variable upstream(random_tensor({1, n}, 60).to(GetParam()));
    expect_no_allocation(operation.name, [&] {
      const Variable loss = linear(reshape(operation.apply(inputs), {1, n}), upstream, {});
      loss.backward(1.0, true);
      loss.backward();
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Floating, SteadyLoop, testing::Values(DType::f32, DType::f64));

}  // namespace
}  // namespace lockstep::test
