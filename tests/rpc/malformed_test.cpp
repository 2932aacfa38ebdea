// Messages that are damaged on their way, or are none of ours.
#include <atomic>
#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include <lockstep/base/log.hpp>
#include <lockstep/comm/message_port.hpp>
#include <lockstep/comm/operation.hpp>
#include <lockstep/rpc/agent.hpp>
#include <rpc/workers.hpp>

namespace lockstep {
namespace {

using std::chrono::milliseconds;

int quadruple(int a) { return 4 * a; }
LOCKSTEP_RPC(quadruple);

/// What is done to the messages of one rank.
struct Meddling {
  /// The next call gets that byte at that place, if it is not negative.
  std::atomic<std::ptrdiff_t> place = -1;
  std::atomic<std::uint8_t> byte = 0;
  std::shared_ptr<ProcessGroup> requests;  ///< the first group that rpc makes
};

class MeddledGroup final : public ProcessGroup {
 public:
  MeddledGroup(std::shared_ptr<ProcessGroup> inner, Meddling& meddling, bool is_first)
      : inner_(std::move(inner)), meddling_(meddling), is_first_(is_first) {}
  int rank() const noexcept override { return inner_->rank(); }
  int size() const noexcept override { return inner_->size(); }
  const char* backend() const noexcept override { return inner_->backend(); }

 private:
  Work start(Operation&& operation) override {
    if (is_first_ && operation.kind == Operation::Kind::send && operation.root != rank() &&
        is_call(operation.input)) {
      const std::ptrdiff_t place = meddling_.place.exchange(-1);
      if (place >= 0) {
        operation.input = operation.input.clone();
        const std::uint8_t byte = meddling_.byte;
        std::memcpy(static_cast<std::byte*>(operation.input.data()) + place, &byte, 1);
      }
    }
    return start_on(*inner_, std::move(operation));
  }
  std::shared_ptr<ProcessGroup> make_subgroup(std::span<const int> members) override {
    const bool first = !meddling_.requests;
    auto made = make_subgroup_of(*inner_, members);
    if (first) meddling_.requests = made;
    return std::make_shared<MeddledGroup>(std::move(made), meddling_, first);
  }
  void enable_wakeup(std::chrono::microseconds awake, bool by_datagrams) override {
    MessagePort(*inner_).enable_wakeup(awake, by_datagrams);
  }
  void release() override { inner_->close(); }
  static bool is_call(const Tensor& message) {
    const auto head = rpc::head_of(message);
    return head && (head->kind == rpc::Kind::call || head->kind == rpc::Kind::create);
  }

  std::shared_ptr<ProcessGroup> inner_;
  Meddling& meddling_;
  bool is_first_;
};

struct Damage {
  std::size_t place;
  std::uint8_t byte;
  bool is_answered;  ///< its head says that a call waits
};
constexpr Damage damages[] = {
    {offsetof(rpc::Head, payload_bytes) + 2, 1, true},
    {offsetof(rpc::Head, status), 200, true},
    {offsetof(rpc::Head, tensors) + 3, 1, true},
    {offsetof(rpc::Head, references), 1, true},
    {offsetof(rpc::Head, context_bytes), 1, true},
    {offsetof(rpc::Head, kind), static_cast<std::uint8_t>(rpc::Kind::answer), false},
    {offsetof(rpc::Head, kind), static_cast<std::uint8_t>(rpc::Kind::wake), false},
    {offsetof(rpc::Head, kind), 99, false},
    {offsetof(rpc::Head, magic), 0, false},
    {offsetof(rpc::Head, version), 77, false},
};

template <class F>
void expect_refused(const F& call) {
  const auto start = Clock::now();
  const std::string said = test::thrown_by<Error>(call);
  EXPECT_NE(said.find("a message was refused"), std::string::npos) << said;
  EXPECT_LT(seconds_since(start), 20) << "at once, not at the deadline";
}

void call_with_damages(Meddling& meddling, int to) {
  for (const Damage& damage : damages) {
    const auto damage_next = [&] {
      meddling.byte = damage.byte;
      meddling.place = static_cast<std::ptrdiff_t>(damage.place);
    };
    damage_next();
    if (damage.is_answered) {
      const auto there = rpc::To(to).within(milliseconds(30'000));
      expect_refused([&] { rpc::rpc_sync(there, quadruple, 1); });
      damage_next();
      expect_refused([&] { static_cast<void>(rpc::remote(there, quadruple, 1).to_here()); });
    } else {
      const auto there = rpc::To(to).within(milliseconds(50));
      EXPECT_NE(test::thrown_by<Error>([&] { rpc::rpc_sync(there, quadruple, 1); }), "");
    }
    EXPECT_EQ(rpc::rpc_sync(to, quadruple, 2), 8);
  }
}

void send_what_nobody_counts(ProcessGroup& requests, int to) {
  std::vector<Tensor> messages = {Tensor::zeros({0}, DType::u8), Tensor::zeros({10}, DType::u8),
                                  Tensor::full({300}, 255.0, DType::u8)};
  rpc::Agent& agent = rpc::Agent::current();
  for (const rpc::Kind kind : {rpc::Kind::answer, rpc::Kind::control, rpc::Kind::wake}) {
    messages.push_back(rpc::OutgoingMessage(kind, agent.limits()).seal(0));
  }
  for (const Tensor& message : messages) requests.send(message, to);
}

TEST(Malformed, MessagesAreAnsweredAtOnceAndShutdownCompletes) {
  for (const int ranks : test::rank_counts()) {
    if (ranks < 2) continue;
    for (const milliseconds limit : {milliseconds(0), milliseconds(20'000)}) {
      test::on_ranks(ranks, [&](const std::shared_ptr<ProcessGroup>& group) {
        Meddling meddling;
        MeddledGroup meddled(group, meddling, false);
        set_log_sink([](LogLevel, std::string_view) {});
        rpc::init(test::name_of_worker(group->rank()), meddled, {.shutdown_timeout = limit});
        const int to = test::after(*group);
        call_with_damages(meddling, to);
        send_what_nobody_counts(*meddling.requests, to);
        EXPECT_EQ(rpc::rpc_sync(to, quadruple, 3), 12);
        const auto start = Clock::now();
        rpc::shutdown();
        EXPECT_LT(seconds_since(start), 15);
        group->barrier();
        set_log_sink({});
      });
    }
  }
}

}  // namespace
}  // namespace lockstep
