// Every kernel from four threads at once: each must get the bits that one thread alone gets.
#include <lockstep/autograd/functional.hpp>

#include <latch>
#include <thread>

#include "gradient_check.hpp"
#include "weighted_sum.hpp"

namespace lockstep::test {
namespace {

struct Operation {
  const char* name;
  std::vector<Shape> inputs;
  Variable (*apply)(const std::vector<Variable>&);
};

Tensor classes(std::int64_t rows) {
  std::vector<std::int64_t> values;
  for (std::int64_t r = 0; r < rows; ++r) values.push_back(r * 7 % 10);
  return Tensor::from(values, {rows});
}

using Inputs = std::vector<Variable>;

// Shapes of the ConvNet and some that take the other path of a kernel.
const std::vector<Operation> operations{
    {"conv2d_1to10",
     {{16, 1, 28, 28}, {10, 1, 5, 5}, {10}},
     [](const Inputs& v) { return conv2d(v[0], v[1], v[2]); }},
    {"conv2d_10to20",
     {{16, 10, 12, 12}, {20, 10, 5, 5}, {20}},
     [](const Inputs& v) { return conv2d(v[0], v[1], v[2]); }},
    {"conv2d_groups",
     {{4, 32, 9, 9}, {32, 4, 3, 3}},
     [](const Inputs& v) {
       return conv2d(v[0], v[1], {}, {{2, 1}, {1, 1}, {1, 2}, 8});
     }},
    {"max_pool2d_2x2",
     {{8, 10, 24, 24}},
     [](const Inputs& v) {
       return max_pool2d(v[0], {2, 2, 0});
     }},
    {"max_pool2d_3x3",
     {{8, 10, 24, 24}},
     [](const Inputs& v) {
       return max_pool2d(v[0], {3, 2, 1});
     }},
    {"linear",
     {{64, 320}, {50, 320}, {50}},
     [](const Inputs& v) { return linear(v[0], v[1], v[2]); }},
    {"relu", {{64, 1440}}, [](const Inputs& v) { return relu(v[0]); }},
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
    {"log_softmax", {{64, 10, 3}}, [](const Inputs& v) { return log_softmax(v[0], 1); }},
    {"nll_loss", {{128, 10}}, [](const Inputs& v) { return nll_loss(v[0], classes(128)); }},
    {"cross_entropy",
     {{128, 10}},
     [](const Inputs& v) {
       LossOptions options;
       options.label_smoothing = 0.1;
       return cross_entropy(v[0], classes(128), options);
     }},
    {"flatten", {{8, 20, 4, 4}}, [](const Inputs& v) { return flatten(v[0]); }},
};

/// Output and gradients of one operation, one after the other.
std::vector<double> run(const Operation& operation, DType dtype) {
  Inputs inputs;
  for (std::size_t i = 0; i < operation.inputs.size(); ++i) {
    inputs.emplace_back(random_tensor(operation.inputs[i], 50 + i).to(dtype), true);
  }
  const Variable out = operation.apply(inputs);
  auto bits = out.data().to(DType::f64).to_vector<double>();
  weighted_sum(out, random_tensor(out.shape(), 60).to(dtype)).backward();
  for (const Variable& input : inputs) {
    const auto gradient = input.grad().to(DType::f64).to_vector<double>();
    bits.insert(bits.end(), gradient.begin(), gradient.end());
  }
  return bits;
}

class FourThreads : public testing::TestWithParam<DType> {};

TEST_P(FourThreads, GetTheBitsOfOne) {
  constexpr int threads = 4, rounds = 3;
  for (const Operation& operation : operations) {
    const auto alone = run(operation, GetParam());
    std::vector<int> differing(threads, 0);
    std::latch start(threads);
    std::vector<std::jthread> team;
    for (int t = 0; t < threads; ++t) {
      team.emplace_back([&, t] {
        start.arrive_and_wait();
        for (int round = 0; round < rounds; ++round) {
          differing[static_cast<std::size_t>(t)] += run(operation, GetParam()) != alone;
        }
      });
    }
    team.clear();
    EXPECT_EQ(differing, std::vector<int>(threads, 0)) << operation.name;
  }
}

INSTANTIATE_TEST_SUITE_P(Floating, FourThreads, testing::Values(DType::f32, DType::f64));

}  // namespace
}  // namespace lockstep::test
