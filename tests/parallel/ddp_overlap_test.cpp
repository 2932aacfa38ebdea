#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <lockstep/base/error.hpp>
#include <lockstep/comm/operation.hpp>
#include <lockstep/parallel/distributed_data_parallel.hpp>

#include "small_models.hpp"

// The moments at which DistributedDataParallel communicates, recorded by a group of one.

namespace lockstep {
namespace {

using test::make_batch;
using test::mean_loss;

class RecordingGroup : public ProcessGroup {
 public:
  /// Work that takes a while once it is waited for.
  struct Record : WorkRecord {
    explicit Record(RecordingGroup& g) : group(g) {}
    bool poll() override {
      ++group.polls;
      return false;
    }
    void wait() override { std::this_thread::sleep_for(group.delay); }
    bool wait_for(std::chrono::microseconds, std::chrono::microseconds) override {
      wait();
      return true;
    }
    void release() noexcept override { delete this; }
    RecordingGroup& group;
  };

  [[nodiscard]] int rank() const noexcept override { return 0; }
  [[nodiscard]] int size() const noexcept override { return 1; }
  [[nodiscard]] const char* backend() const noexcept override { return "recording"; }
  [[nodiscard]] std::shared_ptr<ProcessGroup> make_subgroup(std::span<const int>) override {
    return nullptr;
  }

  std::vector<const void*> reduced;  ///< address of each bucket, in order
  int polls = 0;
  std::chrono::milliseconds delay{0};

 private:
  [[nodiscard]] Work start(Operation&& operation) override {
    // For gradients only: the agreement when the model is made is a scalar.
    if (operation.kind == Operation::Kind::all_reduce && operation.output.dims() > 0) {
      reduced.push_back(operation.output.data());
      return Work(IntrusivePtr<WorkRecord>(new Record(*this)));
    }
    if (operation.kind == Operation::Kind::all_gather) {
      operation.output.reshape(operation.input.shape()).copy_from(operation.input);
    }
    return {};
  }
  void release() override {}
};

/// Passes x on; records in backward how many all-reduces have been started.
struct ProbeNode : PooledNode<ProbeNode> {
  ProbeNode(const RecordingGroup& g, std::size_t& out) : group(g), started(out) {}
  void backward(const Tensor& grad_output) override {
    started = group.reduced.size();
    pass_grad(0, grad_output);
  }
  [[nodiscard]] const char* name() const noexcept override { return "probe"; }
  const RecordingGroup& group;
  std::size_t& started;
};

/// Two layers with a probe between them.
struct Probed : nn::Module {
  explicit Probed(const RecordingGroup& g) : group(g) {}
  Variable forward(const Variable& x) override {
    const Variable hidden = linear(x, first, Variable());
    const Variable between =
        record<ProbeNode>(hidden.data(), {&hidden}, group, started_between_layers);
    return linear(between, second, Variable());
  }
  const RecordingGroup& group;
  std::size_t started_between_layers = 99;
  Variable first = register_parameter("first", test::wave({5, 6}, 0.0));
  Variable second = register_parameter("second", test::wave({4, 5}, 1.0));
};

TEST(DdpOverlap, FirstAllReduceStartsWhileBackwardGoesOn) {
  const auto group = std::make_shared<RecordingGroup>();
  const auto model = std::make_shared<Probed>(*group);
  DistributedDataParallel ddp(model, group, {.buckets = {1, 1}});
  ddp.backward(mean_loss(ddp, make_batch(3, 0.5)), 1.0);
  EXPECT_EQ(model->started_between_layers, 1U);
  EXPECT_EQ(group->reduced.size(), 2U);
  EXPECT_GT(group->polls, 0);  // the second layer's communication was driven from the first's hook
}

TEST(DdpOverlap, OneBucketIsReducedOnceAllItsGradientsAreFinal) {
  const auto group = std::make_shared<RecordingGroup>();
  const auto model = std::make_shared<Probed>(*group);
  DistributedDataParallel ddp(model, group);
  ddp.backward(mean_loss(ddp, make_batch(3, 0.5)), 1.0);
  EXPECT_EQ(model->started_between_layers, 0U);
  EXPECT_EQ(group->reduced.size(), 1U);
}

/// Uses its parameters against the order of registration.
struct Backwards : nn::Module {
  Variable forward(const Variable& x) override {
    return linear(linear(x, used_first, Variable()), used_last, Variable());
  }
  Variable used_last = register_parameter("used_last", test::wave({4, 5}, 1.0));
  Variable used_first = register_parameter("used_first", test::wave({5, 6}, 0.0));
};

TEST(DdpOverlap, OrderOfAllReducesDependsOnTheModelOnly) {
  const auto order = [](bool with_samples) {
    const auto group = std::make_shared<RecordingGroup>();
    const auto model = std::make_shared<Backwards>();
    DistributedDataParallel ddp(model, group, {.buckets = {1, 1}});
    if (with_samples) {
      ddp.backward(mean_loss(ddp, make_batch(3, 0.5)), 1.0);
    } else {
      ddp.backward({}, 0.0);
    }
    EXPECT_EQ(group->reduced.size(), 2U);
    return group->reduced.front() == model->used_first.grad_buffer().data();
  };
  EXPECT_TRUE(order(true));
  EXPECT_TRUE(order(false));
}

/// The layer whose bucket was launched at each call: f(irst), l(ast).
std::string order_of_steps(int steps, bool first_step_has_samples) {
  const auto group = std::make_shared<RecordingGroup>();
  const auto model = std::make_shared<Backwards>();
  DistributedDataParallel ddp(model, group, {.buckets = {1, 1}});
  for (int step = 0; step < steps; ++step) {
    const bool has_samples = step > 0 || first_step_has_samples;
    ddp.backward(has_samples ? mean_loss(ddp, make_batch(3, 0.5)) : Variable(), 1.0);
  }
  std::string order;
  for (const void* address : group->reduced)
    order += address == model->used_first.grad_buffer().data() ? 'f' : 'l';
  return order;
}

TEST(DdpOverlap, FromTheSecondStepOnBucketsSetOutAsTheyBecameReadyInTheFirst) {
  EXPECT_EQ(order_of_steps(3, true), "fllflf");
  EXPECT_EQ(order_of_steps(3, false), "flflfl") << "without samples there was nothing to see";
}

TEST(DdpOverlap, ExposedWaitingIsMeasured) {
  const auto group = std::make_shared<RecordingGroup>();
  DistributedDataParallel ddp(std::make_shared<Backwards>(), group, {.buckets = {1, 1}});
  EXPECT_EQ(ddp.stats().wait_s, 0.0);
  group->delay = std::chrono::milliseconds(5);
  for (int step = 0; step < 2; ++step) ddp.backward(mean_loss(ddp, make_batch(3, 0.5)), 1.0);
  EXPECT_GE(ddp.stats().wait_s, 4 * 0.005);  // two buckets, twice
}

TEST(DdpOverlap, FailedBackwardLeavesLaterOnesLocal) {
  const auto group = std::make_shared<RecordingGroup>();
  const auto model = std::make_shared<Backwards>();
  DistributedDataParallel ddp(model, group, {.buckets = {1, 1}});
  const Variable not_a_loss = ddp.forward(Variable(make_batch(3, 0.5).x));
  EXPECT_THROW(ddp.backward(not_a_loss, 1.0), Error);
  mean_loss(*model, make_batch(3, 0.5)).backward();
  EXPECT_EQ(group->reduced.size(), 0U);
}

}  // namespace
}  // namespace lockstep
