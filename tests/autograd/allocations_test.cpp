// In a steady loop an operation reaches neither operator new nor the system's allocator.
#include <support/allocation_counter.hpp>

#include <lockstep/autograd/functional.hpp>

#include "gradient_check.hpp"

namespace lockstep::test {
namespace {

using Inputs = std::vector<Variable>;

struct Operation {
  const char* name;
  std::vector<Shape> inputs;
  Variable (*apply)(const Inputs&);
};

const std::vector<Operation> operations{
    {"conv2d_1to10",
     {{8, 1, 28, 28}, {10, 1, 5, 5}, {10}},
     [](const Inputs& v) { return conv2d(v[0], v[1], v[2]); }},
    {"conv2d_32to32",
     {{4, 32, 8, 8}, {32, 32, 3, 3}, {32}},
     [](const Inputs& v) { return conv2d(v[0], v[1], v[2]); }},
    {"max_pool2d",
     {{8, 10, 24, 24}},
     [](const Inputs& v) {
       return max_pool2d(v[0], {2, 2, 0});
     }},
    {"linear",
     {{64, 320}, {50, 320}, {50}},
     [](const Inputs& v) { return linear(v[0], v[1], v[2]); }},
    {"relu", {{64, 320}}, [](const Inputs& v) { return relu(v[0]); }},
    {"dropout",
     {{64, 51}},
     [](const Inputs& v) {
       return dropout(v[0], 0.5, {1, 2, 3, 4});
     }},
    {"dropout2d",
     {{8, 20, 8, 8}},
     [](const Inputs& v) {
       return dropout2d(v[0], 0.5, {1, 2, 3, 4});
     }},
    {"log_softmax", {{64, 10}}, [](const Inputs& v) { return log_softmax(v[0], 1); }},
};

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
  for (const Operation& operation : operations) {
    Inputs inputs;
    for (const Shape& shape : operation.inputs) {
      inputs.emplace_back(random_tensor(shape, 1).to(GetParam()), true);
    }
    const Tensor target = Tensor::zeros({operation.inputs[0][0]}, DType::i64);
    // Accumulates from the second pass on, like the second use of a parameter.
    expect_no_allocation(operation.name,
                         [&] { nll_loss(flatten(operation.apply(inputs)), target).backward(); });
    expect_no_allocation(operation.name, [&] {
      for (const Variable& input : inputs) input.zero_grad();
      cross_entropy(flatten(operation.apply(inputs)), target).backward();
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Floating, SteadyLoop, testing::Values(DType::f32, DType::f64));

}  // namespace
}  // namespace lockstep::test
