// In a steady loop on a simulated device nothing reaches operator new or the device's allocator.
#include <gtest/gtest.h>
#include <lockstep/tensor/kernels/conv/conv2d.hpp>
#include <lockstep/tensor/kernels/elementwise/elementwise.hpp>
#include <lockstep/tensor/kernels/linalg/linear.hpp>
#include <lockstep/tensor/kernels/reduce/reduction.hpp>
#include <lockstep/tensor/stream.hpp>
#include <lockstep/tensor/tensor.hpp>
#include <support/allocation_counter.hpp>

namespace lockstep {
namespace {

TEST(DeviceAllocations, DoNotHappenInASteadyLoop) {
  const Device sim{DeviceType::sim, 0};
  const Tensor pinned = Tensor::full({1000}, 1).pin_memory(DeviceType::sim);
  const Stream work = Stream::from_pool(sim);
  DeviceEvent made(sim);
  const auto zeros = [&](const Shape& shape) { return Tensor::zeros(shape, DType::f32, sim); };
  const Tensor weight = zeros({7, 100}), product = zeros({10, 7});
  const Tensor kernel = zeros({2, 1, 3, 3}), image = zeros({1, 2, 23, 38});
  const auto step = [&] {
    const Tensor x = pinned.to(sim, true), y = x.clone();
    const Tensor sum = Tensor::zeros({1}, DType::f32, sim);
    add_scaled(x, 0.5, y);
    linear_forward(x.reshape({10, 100}), weight, {}, product);
    conv2d_forward(x.reshape({1, 1, 25, 40}), kernel, {}, {}, image);
    reduce_sum(y, 1, false, sum);
    made.record(current_stream(sim));
    {
      const StreamGuard guard(work);
      work.wait(made);
      sum *= 2;
      sum.record_stream(work);
      EXPECT_EQ(sum.item(), 3000);
    }
  };
  for (int i = 0; i < 20; ++i) step();
  const auto calls = test::allocation_count();
  const auto device = memory_stats(sim).system_allocations;
  for (int i = 0; i < 20; ++i) step();
  EXPECT_EQ(test::allocation_count() - calls, 0);
  EXPECT_EQ(memory_stats(sim).system_allocations - device, 0);
}

}  // namespace
}  // namespace lockstep
