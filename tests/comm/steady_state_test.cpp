// Counts calls of operator new: collectives and messages must make none in the steady state.
#include <gtest/gtest.h>
#include <comm/backend.hpp>
#include <lockstep/comm/objects.hpp>
#include <support/allocation_counter.hpp>
#include <vector>

namespace lockstep {
namespace {

/// The device that a rank's tensors lie on.
using DeviceOf = Device (*)(int rank);

void expect_no_allocation(DeviceOf device_of) {
  test::on_every_group([&](ProcessGroup& group) {
    const Device device = device_of(group.rank());
    const auto first = Tensor::full({21840}, 1.0, DType::f32, device);
    const auto second = Tensor::full({10}, 1.0, DType::f32, device);
    const auto rows = Tensor::empty({group.size(), 10}, DType::f32, device);
    const auto rows_of_others = Tensor::empty({group.size(), 10}, DType::f32, device);
    const auto received = Tensor::empty({21840}, DType::f32, device);
    const auto half = Tensor::full({40000}, 1.0, DType::bf16, device);
    const auto halves = Tensor::zeros({group.size(), 40000}, DType::bf16, device);
    // Where MPI moves 16-bit floats, they are widened first.
    bool over_nodes = false;
    for (int r = 1; r < group.size(); ++r) over_nodes = over_nodes || !test::share_memory(0, r);
    const auto step = [&] {
      auto a = group.all_reduce(first, ReduceOp::avg);
      auto b = group.all_reduce(second, ReduceOp::avg);
      a.wait();
      b.wait();
      group.broadcast(second, 0).wait();
      group.all_gather(second, rows).wait();
      group.all_to_all(rows, rows_of_others).wait();
      if (over_nodes) {
        group.all_reduce(half, ReduceOp::avg).wait();
        group.reduce(half, group.size() - 1, ReduceOp::max).wait();
        group.all_gather(half, halves).wait();
        group.reduce_scatter(halves, half, ReduceOp::avg).wait();
      }
      static_cast<void>(all_reduce_scalar(group, 1.0, ReduceOp::sum));
      auto sent = group.isend(first, (group.rank() + 1) % group.size());
      group.recv(received, any_source);
      sent.wait();
    };
    for (int i = 0; i < 20; ++i) step();
    // More operations in flight on all ranks at once than the steps ever have: this fills the
    // pools.
    std::vector<Work> sent;
    for (int i = 0; i < 8; ++i)
      sent.push_back(group.isend(first, (group.rank() + 1) % group.size()));
    group.barrier();
    for (int i = 0; i < 8; ++i) group.recv(received, any_source);
    for (Work& work : sent) work.wait();
    sent.clear();
    group.barrier();
    EXPECT_GT(test::allocation_count(), 0) << "the counter does not count";
    // A pool may grow once more when a rank is late: steps that allocate would do so in every
    // window.
    double most = 1.0;
    for (int window = 0; window < 10 && most > 0.0; ++window) {
      group.barrier();
      const auto before = test::allocation_count();
      group.barrier();
      for (int i = 0; i < 100; ++i) step();
      group.barrier();
      const auto during = test::allocation_count() - before;
      group.barrier();
      most = all_reduce_scalar(group, static_cast<double>(during), ReduceOp::max);
    }
    EXPECT_EQ(most, 0.0) << "at best, on any of " << group.size() << " ranks";
  });
}

TEST(SteadyState, NeverCallsOperatorNew) {
  expect_no_allocation([](int) { return Device{}; });
}

TEST(SteadyState, OfTensorsOnADeviceNeverCallsOperatorNew) {
  expect_no_allocation([](int rank) { return Device{DeviceType::sim, rank % 8}; });
}

}  // namespace
}  // namespace lockstep
