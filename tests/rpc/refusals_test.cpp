// What comes from a program that is another one, and what travels beside the arguments.
#include <atomic>
#include <cstring>

#include <lockstep/rpc/agent.hpp>
#include <lockstep/rpc/call_hook.hpp>
#include <rpc/workers.hpp>

namespace lockstep {
namespace {

using rpc::Function;
using rpc::IncomingMessage;
using rpc::Kind;
using rpc::OutgoingMessage;

int triple(int a) { return 3 * a; }
LOCKSTEP_RPC(triple);

/// Calls what the callee knows under another type, or not at all, with that payload.
std::string refusal_of(int to, const char* name, std::uint64_t signature,
                       const std::string& payload, const rpc::RRef<int>& reference = {}) {
  rpc::Agent& agent = rpc::Agent::current();
  Function function{.name = name, .pointer = {}, .signature_text = "", .execute = nullptr};
  function.name_hash = rpc::hash_of_name(name);
  function.signature = signature;
  OutgoingMessage message(Kind::call, agent.limits());
  message.set_to(to);
  message.write(payload.data(), payload.size());
  rpc::OutputArchive archive(message);
  if (reference.defined()) archive(reference);
  auto state = rpc::detail::CallState<int>::make();
  agent.call(message, to, function, state, std::chrono::seconds(30));
  return test::thrown_by<rpc::RemoteError>(
      [&] { static_cast<void>(rpc::Future<int>(state).wait()); });
}

std::uint64_t signature_of_triple() {
  return rpc::find_function(rpc::hash_of_name("triple"))->signature;
}

TEST(Refusals, FunctionsUnknownToTheCalleeAreRefused) {
  test::on_workers([](ProcessGroup& group) {
    const std::string said = refusal_of(test::after(group), "no such function", 1, "");
    EXPECT_NE(said.find("no such function on worker"), std::string::npos) << said;
    EXPECT_NE(said.find("no function with this name is registered there"), std::string::npos)
        << said;
    EXPECT_EQ(rpc::rpc_sync(test::after(group), triple, 2), 6);
  });
}

TEST(Refusals, FunctionsOfAnotherTypeAreRefused) {
  test::on_workers([](ProcessGroup& group) {
    const std::string said = refusal_of(test::after(group), "triple", 1, "");
    EXPECT_NE(said.find("its parameters or its result differ there"), std::string::npos) << said;
  });
}

TEST(Refusals, ArgumentsThatDoNotFitAreRefused) {
  test::on_workers([](ProcessGroup& group) {
    for (const char* payload : {"", "abc", "more than four bytes"}) {
      const std::string said =
          refusal_of(test::after(group), "triple", signature_of_triple(), payload);
      EXPECT_NE(said.find("a message was refused"), std::string::npos) << said;
    }
    EXPECT_EQ(rpc::rpc_sync(test::after(group), triple, 2), 6);
    group.barrier();
    EXPECT_GE(rpc::Agent::current().refused(), 3);
  });
}

// G8 of lockstep/rpc/references.hpp.
TEST(Refusals, LeaveNoReferenceBehind) {
  test::on_workers([](ProcessGroup& group) {
    rpc::RRef<int> number(4);
    EXPECT_NE(refusal_of(test::after(group), "no such function", 1, "", number), "");
    number = {};
    const auto start = Clock::now();
    rpc::References& references = rpc::Agent::current().references();
    while (references.counts().owned > 0 && seconds_since(start) < 30) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    EXPECT_EQ(references.counts().owned, 0);
  });
}

TEST(Refusals, InvalidOptionsAreRefused) {
  for (const int ranks : test::rank_counts()) {
    test::on_ranks(ranks, [](const std::shared_ptr<ProcessGroup>& group) {
      EXPECT_NE(test::thrown_by<InputError>([&] { rpc::init("a", *group, {.workers = -1}); }), "");
      EXPECT_NE(test::thrown_by<InputError>(
                    [&] { rpc::init("a", *group, {.timeout = std::chrono::milliseconds(0)}); }),
                "");
    });
  }
}

/// Sends a number beside each call, and the number of the call beside each answer.
class Numbers final : public rpc::CallHook {
 public:
  void sending(OutgoingMessage& message, std::uint64_t scope) override {
    const std::uint64_t number = message.head().kind == Kind::answer ? scope + 1 : 100;
    const auto* bytes = reinterpret_cast<const std::byte*>(&number);
    message.context().assign(bytes, bytes + sizeof(number));
  }
  std::uint64_t enter(IncomingMessage& message) override {
    ++inside;
    return number_in(message);
  }
  void leave(std::uint64_t scope) noexcept override {
    --inside;
    wrong += scope == 100 ? 0 : 1;
  }
  void answered(IncomingMessage& message) override {
    wrong += number_in(message) == 101 ? 0 : 1;
    ++answers;
  }

  std::atomic<int> inside = 0, answers = 0, wrong = 0;

 private:
  static std::uint64_t number_in(const IncomingMessage& message) {
    std::uint64_t number = 0;
    if (message.context().size() == sizeof(number)) {
      std::memcpy(&number, message.context().data(), sizeof(number));
    }
    return number;
  }
};

TEST(CallHook, TravelsWithCallsAndAnswers) {
  Numbers numbers;
  rpc::CallHook* const before = rpc::call_hook();  // that of dist_autograd
  rpc::set_call_hook(&numbers);
  int expected = 0;
  for (const int ranks : test::rank_counts()) expected += ranks;
  if (test::rank_counts().size() == 1) expected = 1;  // of this process
  test::on_workers(
      [](ProcessGroup& group) { EXPECT_EQ(rpc::rpc_sync(test::after(group), triple, 2), 6); });
  rpc::set_call_hook(before);
  EXPECT_EQ(numbers.answers, expected);
  EXPECT_EQ(numbers.inside, 0);
  EXPECT_EQ(numbers.wrong, 0);
}

}  // namespace
}  // namespace lockstep
