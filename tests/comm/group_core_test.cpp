// The rules of every group: after its backend has thrown, and among threads.
#include <chrono>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <gtest/gtest.h>
#include <lockstep/base/error.hpp>
#include <lockstep/comm/coalescing.hpp>
#include <lockstep/comm/engine/group_core.hpp>
#include <lockstep/tensor/runtime/simulated_runtime.hpp>
#include <lockstep/tensor/stream.hpp>
#include <support/message_of.hpp>

namespace lockstep {
namespace {

/// A group of one rank, whose operations complete at their first progress. The first one throws
/// when it is launched.
class Core final : public GroupCore {
 public:
  Core() : GroupCore({}) { introduce(0, 1, ""); }
  using GroupCore::finalize;
  using GroupCore::join_engine;
  using GroupCore::lock;

  bool all_have_entered = true;
  int looks = 0;  // of its collectives at the others
  bool throws = true;
  std::optional<OperationFailure> failure;  // which it throws then
  DeviceReach reach = DeviceReach::by_pinned_memory;
  Tensor given;             // the newest operation's input, as it was launched
  std::int64_t queued = 0;  // on sim:0 then

 private:
  [[nodiscard]] DeviceReach reach_of(const Operation& /*operation*/) const noexcept override {
    return reach;
  }
  [[nodiscard]] IntrusivePtr<InFlight> make(Operation&& operation) override;
  [[nodiscard]] std::string missing_ranks(const InFlight& /*work*/) const override { return ""; }
  void retire(std::uint64_t /*sequence*/) noexcept override {}
  void keep_abandoned(const IntrusivePtr<WorkRecord>& /*record*/) noexcept override {}
};

class OneRanksOperation final : public InFlight {
 public:
  OneRanksOperation(Core& core, Operation&& operation)
      : InFlight(IntrusivePtr<GroupCore>(&core), std::move(operation)), core_(core) {}

 private:
  [[nodiscard]] bool rendezvous(bool is_next) override {
    ++core_.looks;
    return is_next && core_.all_have_entered;
  }
  [[nodiscard]] Motion transfer() override {
    core_.given = operation().input;
    if (operation().device.type == DeviceType::sim) {
      core_.queued = SimulatedRuntime::instance().counts(0).queued;
    }
    if (core_.failure) throw OperationFailure(*core_.failure);
    if (std::exchange(core_.throws, false)) throw Error("there is no memory");
    return Motion::over;
  }
  void release() noexcept override { delete this; }

  Core& core_;
};

IntrusivePtr<InFlight> Core::make(Operation&& operation) {
  return IntrusivePtr<InFlight>(new OneRanksOperation(*this, std::move(operation)));
}

TEST(GroupCore, PassesDeviceTensorsToABackendAsItSupportsThem) {
  for (const DeviceReach reach :
       {DeviceReach::by_pinned_memory, DeviceReach::by_host, DeviceReach::by_device}) {
    const IntrusivePtr<Core> core(new Core);
    core->throws = false;
    core->reach = reach;
    const Device device{DeviceType::sim, 0};
    Operation operation;
    operation.kind = Operation::Kind::all_reduce;
    operation.device = device;
    operation.input = operation.output = Tensor::zeros({100}, DType::f32, device);
    const Tensor t = operation.input;
    current_stream(device).synchronize();
    t.fill(3.0);
    Work work = core->start(std::move(operation));
    work.wait();
    const bool is_copy = reach == DeviceReach::by_pinned_memory;
    EXPECT_EQ(core->given.device(), is_copy ? Device{} : device);
    EXPECT_EQ(core->given.data() == t.data(), !is_copy);
    EXPECT_EQ(core->queued > 0, reach == DeviceReach::by_device) << "what is before it has run";
    EXPECT_EQ(core->given.to_vector<float>().back(), 3.0F);
    EXPECT_EQ(t.to_vector<float>().back(), 3.0F);
    work.synchronize();  // the core lets go of it
  }
}

template <class F>
void expect_told(const F& call) {
  const auto message = test::message_of<CommError>(call);
  EXPECT_NE(message.find("#1: there is no memory"), std::string::npos) << message;
}

TEST(GroupCore, EndsIfTheLaunchOfACollectiveThrows) {
  const IntrusivePtr<Core> core(new Core);
  EXPECT_EQ(test::message_of<Error>([&] { static_cast<void>(core->start(Operation{})); }),
            "there is no memory");
  expect_told([&] { static_cast<void>(core->start(Operation{})); });
}

TEST(GroupCore, EndsIfTheLaunchOfAMessageThrows) {
  const IntrusivePtr<Core> core(new Core);
  EXPECT_EQ(test::message_of<Error>(
                [&] { static_cast<void>(core->start({.kind = Operation::Kind::send})); }),
            "there is no memory");
  expect_told([&] { static_cast<void>(core->start(Operation{})); });
}

TEST(GroupCore, NamesTheOperationAndRankThatCannotContinue) {
  using Kind = OperationFailure::Kind;
  const auto said = [](const OperationFailure& failure) {
    const IntrusivePtr<Core> core(new Core);
    core->failure = failure;
    const auto first =
        test::message_of<CommError>([&] { static_cast<void>(core->start(Operation{})); });
    const auto later =
        test::message_of<CommError>([&] { static_cast<void>(core->start(Operation{})); });
    EXPECT_NE(later.find("it failed earlier: rank 0 of 1: "), std::string::npos) << later;
    return first;
  };
  EXPECT_EQ(said({Kind::finding, "two came"}), "rank 0 of 1: barrier #1: two came");
  EXPECT_EQ(said({Kind::mismatch, "rank 1 called reduce"}),
            "rank 0 of 1: barrier #1: rank 1 called reduce: all ranks must make the same calls in "
            "the same order");
  EXPECT_EQ(said({Kind::transport, "the link is down"}),
            "rank 0 of 1: barrier #1 failed: the link is down. Look at the other ranks and at the "
            "network; the job must be restarted.");
  const Operation other{.kind = Operation::Kind::send, .root = 2, .tag = 3};
  EXPECT_EQ(said({Kind::finding, "it is too long", &other}),
            "rank 0 of 1: send(to rank 2, tag 3) #0: it is too long");
  EXPECT_NE(said(OperationFailure::time_out(2.5)).find("has not completed after 2.5 s"),
            std::string::npos);
}

TEST(GroupCore, ReportsAnErrorMetByAnotherThreadInTheWait) {
  const IntrusivePtr<Core> core(new Core);
  core->all_have_entered = false;
  Work work = core->start(Operation{});
  core->all_have_entered = true;
  core->progress_if_free();
  expect_told([&] { work.wait(); });
}

class Group final : public ProcessGroup {
 public:
  explicit Group(IntrusivePtr<Core> core) : core_(std::move(core)) {}
  [[nodiscard]] int rank() const noexcept override { return core_->rank(); }
  [[nodiscard]] int size() const noexcept override { return core_->size(); }
  [[nodiscard]] const char* backend() const noexcept override { return "one rank"; }

 private:
  [[nodiscard]] Work start(Operation&& operation) override {
    return core_->start(std::move(operation));
  }
  [[nodiscard]] std::shared_ptr<ProcessGroup> make_subgroup(
      std::span<const int> /*members*/) override {
    return nullptr;
  }
  void release() override {}

  IntrusivePtr<Core> core_;
};

TEST(GroupCore, ATestOfABatchMovesEachOfItsOperationsOnOnce) {
  const IntrusivePtr<Core> core(new Core);
  core->throws = false;
  core->all_have_entered = false;
  Group group(core);
  const Tensor t = Tensor::zeros({1});
  Coalescing batch(group);
  for (int i = 0; i < 5; ++i) static_cast<void>(group.all_reduce(t, ReduceOp::sum));
  Work work = batch.end();
  core->looks = 0;
  EXPECT_FALSE(work.test());
  EXPECT_EQ(core->looks, 5);
  core->all_have_entered = true;
  EXPECT_TRUE(work.test());
}

/// A group with an operation that waits for others, which other threads may move on.
IntrusivePtr<Core> shared_and_busy() {
  IntrusivePtr<Core> core(new Core);
  core->all_have_entered = false;
  core->join_engine(true);
  static_cast<void>(core->start(Operation{}));
  return core;
}

// The thread that moves it on may want the group whose deadline it is.
TEST(GroupCore, ATimeOutDoesNotWaitForAGroupThatAnotherThreadMovesOn) {
  const auto busy = shared_and_busy();
  auto held = busy->lock();
  auto told = std::async(std::launch::async, [] {
    const IntrusivePtr<Core> late(new Core);
    late->failure = OperationFailure::time_out(2.5);
    return test::message_of<TimeoutError>([&] { static_cast<void>(late->start(Operation{})); });
  });
  EXPECT_EQ(told.wait_for(std::chrono::seconds(20)), std::future_status::ready);
  held.unlock();
  EXPECT_NE(told.get().find("has not completed after 2.5 s"), std::string::npos);
  busy->finalize("the test is over");
}

TEST(GroupCore, FinalizeWaitsForTheThreadThatMovesTheGroupOn) {
  const auto busy = shared_and_busy();
  auto held = busy->lock();
  auto ended = std::async(std::launch::async, [&] { return busy->finalize("the test is over"); });
  EXPECT_EQ(ended.wait_for(std::chrono::milliseconds(50)), std::future_status::timeout);
  held.unlock();
  EXPECT_FALSE(ended.get()) << "an operation was in flight";
}

}  // namespace
}  // namespace lockstep
