#include <chrono>
#include <thread>

#include <gtest/gtest.h>

#include <lockstep/base/clock.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/comm/mpi_group.hpp>
#include <lockstep/comm/objects.hpp>

// Progress of an operation between its start and its wait, and the checks before.

namespace lockstep {
namespace {

std::shared_ptr<ProcessGroup> group_with(Progress progress, Contract contract = Contract::hash) {
  return make_mpi_group(
      MPI_COMM_WORLD,
      {.timeout = std::chrono::seconds(60), .contract = contract, .progress = progress});
}

/// True if an all-reduce of `t` completes on every rank during `pause` without a call on the group:
/// then waiting takes no time, while reducing 16 MiB would take several milliseconds.
bool is_over_without_a_call(ProcessGroup& group, const Tensor& t, std::chrono::milliseconds pause) {
  t.fill(1.0);
  group.barrier();
  Work work = group.all_reduce(t, ReduceOp::sum);
  std::this_thread::sleep_for(pause);
  const auto start = Clock::now();
  work.wait();
  const bool at_once = seconds_since(start) < 0.001;
  EXPECT_EQ(t.to_vector<float>().back(), static_cast<float>(group.size()));
  return all_reduce_scalar(group, at_once ? 1.0 : 0.0, ReduceOp::min) == 1.0;
}

/// The same after ever longer pauses: on a busy machine a short one, or the look at the clock after
/// it, proves nothing.
bool is_over_in_the_end(ProcessGroup& group, const Tensor& t) {
  for (std::chrono::milliseconds pause(50); pause < std::chrono::seconds(10); pause *= 2) {
    if (is_over_without_a_call(group, t, pause)) return true;
  }
  return false;
}

constexpr std::int64_t length = 1 << 22;

TEST(Progress, OfAThreadNeedsNoCalls) {
  const auto group = group_with(Progress::thread);
  EXPECT_TRUE(is_over_in_the_end(*group, Tensor::empty({length})));
  EXPECT_TRUE(is_over_in_the_end(*group, group->shared_buffer({length}, DType::f32)));
  group->close();
}

// For a program that is inside something else: later, and at its own pace (10 ms, then 1 ms).
TEST(Progress, ByPollingIsTakenOverWithoutCalls) {
  const auto group = group_with(Progress::poll);
  EXPECT_TRUE(is_over_in_the_end(*group, Tensor::empty({length})));
  group->close();
}

TEST(Progress, ByPollingHappensInEveryCall) {
  const auto group = group_with(Progress::poll);
  const auto t = Tensor::full({1 << 20}, 1.0);
  Work work = group->all_reduce(t, ReduceOp::sum);
  const auto deadline = Clock::now() + std::chrono::seconds(60);
  bool over = false;
  while (!(over = work.test()) && Clock::now() < deadline) std::this_thread::yield();
  ASSERT_TRUE(over);
  EXPECT_EQ(t.to_vector<float>().back(), static_cast<float>(group->size()));
  group->close();
}

// A rank that has received a message may still owe MPI an answer, for which the sender waits. It
// gives that answer also while it waits for something that is none of MPI's: the root's next call.
TEST(Progress, OfASenderNeedsNoOperationOfItsReceiversInMpi) {
  const auto group = group_with(Progress::poll);
  std::vector<Tensor> tensors;
  for (int i = 0; i < 200; ++i) tensors.push_back(Tensor::full({4096}, group->rank()));
  for (int round = 0; round < 10; ++round) {
    std::vector<Work> works;
    for (const Tensor& t : tensors) works.push_back(group->broadcast(t, 0));
    for (Work& work : works) work.wait();
    const Tensor number = Tensor::full({}, group->rank() + round);
    group->broadcast(number, 0).wait();
    EXPECT_EQ(number.item(), round);
  }
  EXPECT_EQ(tensors.back().to_vector<float>().back(), 0.0F);
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
  // The same bytes as another dtype: no garbage, since nothing is added.
  const auto t = Tensor::zeros({64}, group->rank() == 0 ? DType::f32 : DType::i32);
  group->broadcast(t, 0).wait();
  group->close();
}

}  // namespace
}  // namespace lockstep
