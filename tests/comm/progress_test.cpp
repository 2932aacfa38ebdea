#include <chrono>
#include <thread>

#include <gtest/gtest.h>

#include <lockstep/base/clock.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/comm/mpi_group.hpp>

// What moves an operation on between its start and its wait, and what is compared before.

namespace lockstep {
namespace {

std::shared_ptr<ProcessGroup> group_with(Progress progress, Contract contract = Contract::hash) {
  return make_mpi_group(
      MPI_COMM_WORLD,
      {.timeout = std::chrono::seconds(20), .contract = contract, .progress = progress});
}

/// True if an all-reduce of `t` is over after half a second without a call on the group.
bool is_over_without_a_call(ProcessGroup& group, const Tensor& t) {
  group.barrier();
  Work work = group.all_reduce(t, ReduceOp::sum);
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  const auto start = Clock::now();
  work.wait();
  return seconds_since(start) < 0.001;
}

TEST(Progress, OfAThreadNeedsNoCalls) {
  const auto group = group_with(Progress::thread);
  const auto own = Tensor::full({1 << 20}, 1.0);
  EXPECT_TRUE(is_over_without_a_call(*group, own));
  EXPECT_EQ(own.to_vector<float>().back(), static_cast<float>(group->size()));
  const auto shared = group->shared_buffer({1 << 20}, DType::f32);
  shared.fill(1.0);
  EXPECT_TRUE(is_over_without_a_call(*group, shared));
  EXPECT_EQ(shared.to_vector<float>().back(), static_cast<float>(group->size()));
  group->close();
}

TEST(Progress, ByPollingGoesOnInEveryCall) {
  const auto group = group_with(Progress::poll);
  const auto t = Tensor::full({1 << 20}, 1.0);
  Work work = group->all_reduce(t, ReduceOp::sum);
  const auto deadline = Clock::now() + std::chrono::seconds(10);
  while (!work.test() && Clock::now() < deadline) std::this_thread::yield();
  EXPECT_EQ(t.to_vector<float>().back(), static_cast<float>(group->size()));
  group->close();
}

TEST(Contract, FullComparesShapesWhereHashComparesSizes) {
  for (const Contract contract : {Contract::hash, Contract::full}) {
    const auto group = group_with(Progress::poll, contract);
    const auto t = group->rank() == 0 ? Tensor::full({20, 30}, 1.0) : Tensor::full({30, 20}, 1.0);
    if (contract == Contract::hash || group->size() == 1) {
      group->all_reduce(t, ReduceOp::sum).wait();
      EXPECT_EQ(t.to_vector<float>().back(), static_cast<float>(group->size()));
      group->close();
      continue;
    }
    try {
      group->all_reduce(t, ReduceOp::sum).wait();
      ADD_FAILURE() << "rank " << group->rank() << " did not notice";
    } catch (const CommError& error) {
      const std::string message = error.what();
      EXPECT_NE(message.find("another shape"), std::string::npos) << message;
    }
  }
}

TEST(Contract, OffComparesNothing) {
  const auto group = group_with(Progress::poll, Contract::off);
  // The same bytes under another dtype: garbage nowhere, since nothing is added.
  const auto t = Tensor::zeros({64}, group->rank() == 0 ? DType::f32 : DType::i32);
  group->broadcast(t, 0).wait();
  group->close();
}

}  // namespace
}  // namespace lockstep
