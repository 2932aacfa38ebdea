// What becomes of a group whose backend throws.
#include <string>
#include <utility>

#include <gtest/gtest.h>
#include <lockstep/base/error.hpp>
#include <lockstep/comm/engine/group_core.hpp>
#include <support/message_of.hpp>

namespace lockstep {
namespace {

/// A group of one rank, whose operations are over as soon as they move. The first one throws when
/// it begins.
class Core final : public GroupCore {
 public:
  Core() : GroupCore({}) { introduce(0, 1, ""); }

  Agreement agreement = Agreement::reached;
  bool throws = true;

 private:
  [[nodiscard]] IntrusivePtr<InFlight> make(Operation&& operation) override;
  [[nodiscard]] std::string absentees(const InFlight& /*work*/) const override { return ""; }
  void retire(std::uint64_t /*sequence*/) noexcept override {}
  void bury(const IntrusivePtr<WorkRecord>& /*record*/) noexcept override {}
};

class OneRanksOperation final : public InFlight {
 public:
  OneRanksOperation(Core& core, Operation&& operation)
      : InFlight(IntrusivePtr<GroupCore>(&core), std::move(operation)), core_(core) {}

 private:
  [[nodiscard]] bool post() override { return true; }
  [[nodiscard]] Agreement agree() override { return core_.agreement; }
  [[nodiscard]] std::string dispute() override { return ""; }
  void begin() override {
    if (std::exchange(core_.throws, false)) throw Error("there is no memory");
  }
  [[nodiscard]] Motion move() override { return Motion::over; }
  void release() noexcept override { delete this; }

  Core& core_;
};

IntrusivePtr<InFlight> Core::make(Operation&& operation) {
  return IntrusivePtr<InFlight>(new OneRanksOperation(*this, std::move(operation)));
}

template <class F>
void expect_told(const F& call) {
  const auto message = test::message_of<CommError>(call);
  EXPECT_NE(message.find("#1: there is no memory"), std::string::npos) << message;
}

TEST(GroupCore, EndsWithWhateverACollectiveThrowsWhenItBegins) {
  const IntrusivePtr<Core> core(new Core);
  EXPECT_EQ(test::message_of<Error>([&] { static_cast<void>(core->start(Operation{})); }),
            "there is no memory");
  expect_told([&] { static_cast<void>(core->start(Operation{})); });
}

TEST(GroupCore, EndsWithWhateverAMessageThrowsWhenItBegins) {
  const IntrusivePtr<Core> core(new Core);
  EXPECT_EQ(test::message_of<Error>(
                [&] { static_cast<void>(core->start({.kind = Operation::Kind::send})); }),
            "there is no memory");
  expect_told([&] { static_cast<void>(core->start(Operation{})); });
}

TEST(GroupCore, TellsTheWaitWhatSomebodyElseMet) {
  const IntrusivePtr<Core> core(new Core);
  core->agreement = Agreement::pending;
  Work work = core->start(Operation{});
  core->agreement = Agreement::reached;
  core->progress_if_free();
  expect_told([&] { work.wait(); });
}

}  // namespace
}  // namespace lockstep
