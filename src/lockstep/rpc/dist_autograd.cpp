#include <lockstep/rpc/agent.hpp>
#include <lockstep/rpc/dist_autograd.hpp>

#include <atomic>
#include <cstring>

#include <fmt/format.h>

#include <lockstep/base/error.hpp>
#include <lockstep/base/log.hpp>
#include <lockstep/rpc/autograd_context.hpp>
#include <lockstep/rpc/backward_pass.hpp>

namespace lockstep::dist_autograd {
namespace {

thread_local constinit std::uint64_t calls_within = 0;
/// The values of calls_within before each of the functions that this thread is executing, outermost
/// first.
thread_local std::vector<std::uint64_t> contexts_before;

Tag tag_of(std::span<const std::byte> bytes) {
  Tag tag{};
  if (bytes.size() == sizeof(tag)) std::memcpy(&tag, bytes.data(), sizeof(tag));
  return tag;
}

/// Attaches the context to each call, and that of the call to its answer.
class Hook final : public rpc::CallHook {
 public:
  void sending(rpc::OutgoingMessage& message, std::uint64_t scope) override {
    const bool answers = message.head().kind == rpc::Kind::answer;
    const std::uint64_t context = answers ? scope : calls_within;
    if (context == 0) return;
    auto& contexts = Contexts::of(rpc::Agent::current());
    const auto part = answers ? contexts.find(context) : contexts.find_or_make(context);
    if (!part) return;  // the context has ended meanwhile
    if (!answers) part->add_neighbour(message.to());
    const Tag tag{context, part->next_message()};
    const auto* const bytes = reinterpret_cast<const std::byte*>(&tag);
    message.context().assign(bytes, bytes + sizeof(tag));
  }
  std::uint64_t enter(rpc::IncomingMessage& message) override {
    const std::uint64_t context = tag_of(message.context()).context;
    if (context != 0) {
      static_cast<void>(Contexts::of(rpc::Agent::current()).find_or_make(context));
    }
    contexts_before.push_back(calls_within);
    return calls_within = context;
  }
  void leave(std::uint64_t /*scope*/) noexcept override {
    calls_within = contexts_before.back();
    contexts_before.pop_back();
  }
  void answered(rpc::IncomingMessage& /*message*/) override {}
};

constinit Hook hook;
[[maybe_unused]] const bool hooked = (rpc::set_call_hook(&hook), true);

}  // namespace

CallsWithin::CallsWithin(std::uint64_t context) noexcept
    : before_(std::exchange(calls_within, context)) {}
CallsWithin::~CallsWithin() { calls_within = before_; }

void end_context(std::uint64_t context) {
  const auto part = Contexts::of(rpc::Agent::current()).remove(context);
  if (!part) return;
  const CallsWithin none(0);
  for (const int neighbour : part->neighbours()) {
    static_cast<void>(rpc::rpc_async(neighbour, end_context, context));
  }
}

LOCKSTEP_RPC_AS("lockstep::dist_autograd::end_context", end_context);

Context::Context() : id_(next_number()), before_(std::exchange(calls_within, id_)) {
  static_cast<void>(Contexts::of(rpc::Agent::current()).find_or_make(id_));
}

Context::~Context() {
  calls_within = before_;
  try {
    end_context(id_);
  } catch (const std::exception& error) {
    log(LogLevel::warning,
        fmt::format("a distributed autograd context was not released on all ranks: {}",
                    error.what()));
  }
}

std::uint64_t current_context() noexcept { return calls_within; }

void backward(std::uint64_t context, std::span<const Variable> losses) {
  for (const Variable& loss : losses) {
    if (!loss.defined() || loss.data().numel() != 1 || !loss.requires_grad()) {
      throw Error(
          "dist_autograd::backward needs losses of one element that depend on a parameter, not " +
          (loss.defined() ? describe(loss.data()) : "an undefined variable"));
    }
  }
  run_backward_pass(context, losses);
}

Tensor gradient(std::uint64_t context, const Variable& leaf) {
  return part_of(context)->gradient(leaf);
}

std::vector<std::pair<Variable, Tensor>> gradients(std::uint64_t context) {
  return part_of(context)->gradients();
}

std::size_t context_count() { return Contexts::of(rpc::Agent::current()).size(); }

}  // namespace lockstep::dist_autograd

namespace lockstep::rpc {

void save(OutputArchive& archive, const Variable& variable) {
  using namespace dist_autograd;
  const Tag tag = tag_of(archive.message().context());
  const bool may_continue =
      variable.defined() && variable.requires_grad() && grad_enabled() && tag.context != 0;
  const auto part =
      may_continue ? Contexts::of(Agent::current()).find_or_make(tag.context) : nullptr;
  const bool continues = part != nullptr;  // else only the value is sent, as outside of contexts
  if (continues) part->add_sent(tag.message, variable);
  archive(variable.defined() ? variable.data() : Tensor());
  archive(continues);
}

void load(InputArchive& archive, Variable& variable) {
  using namespace dist_autograd;
  Tensor value;
  bool continues = false;
  archive(value);
  archive(continues);
  const Tag tag = tag_of(archive.message().context());
  if (!value.defined()) {
    variable = Variable();
    return;
  }
  continues = continues && tag.context != 0;
  if (continues && !is_floating(value.dtype()))
    throw MalformedMessage("a message was refused: only floating tensors have gradients");
  const auto part = continues ? Contexts::of(Agent::current()).find_or_make(tag.context) : nullptr;
  variable = part ? part->add_received(tag.message, archive.message().from(), std::move(value))
                  : Variable(std::move(value));
}

}  // namespace lockstep::rpc
