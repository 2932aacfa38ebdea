// Every kernel from four threads at once: each must get the bits that one thread alone gets.
#include <gtest/gtest.h>

#include <latch>
#include <thread>

#include "gradient_check.hpp"
#include "operations/operations.hpp"
#include "weighted_sum.hpp"

namespace lockstep::test {
namespace {

/// Output and gradients of one operation, one after the other.
std::vector<double> run(const Operation& operation, DType dtype) {
  const Inputs inputs = make_inputs(operation, dtype);
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
  constexpr int threads = 4;
#ifdef __SANITIZE_THREAD__
  constexpr int rounds = 1;  // a race that does not happen is seen, too
#else
  constexpr int rounds = 3;
#endif
  for (const Operation& operation : all_operations()) {
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
