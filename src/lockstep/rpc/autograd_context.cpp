#include <lockstep/rpc/agent.hpp>
#include <lockstep/rpc/autograd_context.hpp>

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include <lockstep/autograd/node.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/rpc/backward_pass.hpp>
#include <lockstep/tensor/kernels/elementwise/elementwise.hpp>

namespace lockstep::dist_autograd {
namespace {

/// True while this thread runs a pass of a context, and not one of Variable::backward.
thread_local constinit bool runs_own_pass = false;

/// The producer of a variable received from another rank: keeps the gradient for the answer.
class ReceivedNode final : public PooledNode<ReceivedNode> {
 public:
  ReceivedNode(std::weak_ptr<Received> message, std::size_t place)
      : message_(std::move(message)), place_(place) {}

  void backward(const Tensor& grad_output) override {
    const auto message = message_.lock();
    if (!message) {
      throw Error(
          "backward() reached a Variable that another rank sent, in a context that has ended: call "
          "dist_autograd::backward while the context lives");
    }
    if (!runs_own_pass) {
      const auto part = message->part.lock();
      if (!part || !tell_when_over(part->continuation())) {
        throw Error(
            "backward() reached, within a recomputed block, a Variable that another rank sent: "
            "move the call out of the block");
      }
    }
    Tensor& gradient = message->gradients[place_];
    if (gradient.defined()) return add_scaled(grad_output, 1.0, gradient);  // not sent yet
    gradient = Tensor::empty_like(grad_output);
    gradient.copy_from(grad_output);
  }
  [[nodiscard]] const char* name() const noexcept override { return "received"; }

 private:
  std::weak_ptr<Received> message_;
  std::size_t place_;
};

/// Compares passes begun by the same worker: see next_number().
bool is_older(std::uint64_t pass, std::uint64_t than) {
  return pass >> 48U == than >> 48U && pass < than;
}

}  // namespace

void ContextPart::add_neighbour(int worker) {
  const std::lock_guard lock(lists_);
  neighbours_.insert(worker);
}

void ContextPart::add_sent(std::uint64_t message, const Variable& variable) {
  const std::lock_guard lock(lists_);
  const auto place = std::ranges::find(sent_, message, &Sent::message);
  auto& sent = place != sent_.end() ? *place : sent_.emplace_back(Sent{message, {}});
  sent.variables.push_back(variable);
}

Variable ContextPart::add_received(std::uint64_t message, int from, Tensor value) {
  const std::lock_guard lock(lists_);
  auto place = std::ranges::find_if(
      received_, [&](const auto& r) { return r->message == message && r->from == from; });
  if (place == received_.end()) {
    received_.push_back(
        std::make_shared<Received>(Received{weak_from_this(), message, from, {}, {}}));
    place = received_.end() - 1;
  }
  Received& received = **place;
  const EnableGradGuard recording;
  // A separate leaf: passes outside contexts count uses in it. Without an input that requires a
  // gradient, nothing is recorded.
  const Variable elsewhere(value, true);
  Variable variable =
      record<ReceivedNode>(std::move(value), {&elsewhere}, *place, received.variables.size());
  received.variables.push_back(variable);
  received.gradients.emplace_back();
  return variable;
}

template <class Step>
Progress ContextPart::run(std::uint64_t pass, const Step& step) {
  if (pass_ == pass && failure_) std::rethrow_exception(failure_);
  struct Own {
    bool before = std::exchange(runs_own_pass, true);
    ~Own() { runs_own_pass = before; }
  } const own;
  try {
    step();
    if (!begun_here_) expect_not_observed();
    return progress();
  } catch (...) {
    failure_ = std::current_exception();
    throw;
  }
}

void ContextPart::forget_pass(std::uint64_t next) {
  stages_.reset();
  store_.end_pass();
  failure_ = nullptr;
  pass_ = next;
  awaited_.clear();
  begun_here_ = false;
  forget_received();
}

void ContextPart::forget_received() noexcept {
  const std::lock_guard lock(lists_);
  for (const auto& received : received_) {
    received->answered = false;
    std::ranges::fill(received->gradients, Tensor());
  }
}

void ContextPart::expect_not_observed() const {
  for (const Variable& leaf : store_.leaves_of_pass()) {
    for (const auto& hook : leaf.record()->grad_hooks) {
      if (!hook.observer || !hook.observer->awaits_pass()) continue;
      throw Error(
          "a dist_autograd backward pass that another rank started reached parameters of a "
          "DistributedDataParallel. Their gradients are averaged only if the rank that holds it "
          "starts the pass: call dist_autograd::backward there");
    }
  }
}

void ContextPart::tell_observers() {
  const std::lock_guard lock(running_);
  std::vector<PassObserver*> observers;
  for (const Variable& leaf : store_.leaves_of_pass()) {
    for (const auto& hook : leaf.record()->grad_hooks) {
      if (hook.observer && std::ranges::find(observers, hook.observer) == observers.end())
        observers.push_back(hook.observer);
    }
  }
  std::ranges::sort(observers, {}, &PassObserver::number);
  for (PassObserver* const observer : observers) observer->gradients_are_in(store_);
}

void ContextPart::end_pass() {
  const std::lock_guard lock(running_);
  store_.end_pass();
}

void ContextPart::Continuation::pass_is_over() { continue_pass(part_.shared_from_this()); }
std::shared_ptr<void> ContextPart::Continuation::owner() { return part_.shared_from_this(); }

void ContextPart::open(std::uint64_t pass, std::span<const Variable> losses, bool begun_here) {
  forget_pass(pass);
  begun_here_ = begun_here;
  store_.begin_pass(/*keeps_apart=*/begun_here);
  waits_for_all_ = true;
  std::vector<Variable> roots(losses.begin(), losses.end());
  const std::lock_guard lock(lists_);
  for (const Sent& sent : sent_) {
    roots.insert(roots.end(), sent.variables.begin(), sent.variables.end());
    awaited_.push_back(sent.message);
  }
  stages_ = std::make_unique<StagedBackward>(roots, store_);
}

Progress ContextPart::begin(std::uint64_t pass, std::span<const Variable> losses) {
  const std::lock_guard lock(running_);
  return run(pass, [&] {
    open(pass, losses, true);
    for (const Variable& loss : losses) {
      stages_->give(loss, Tensor::full(loss.shape(), 1.0, loss.data().dtype()));
    }
    stages_->run();
  });
}

Progress ContextPart::begin_continued(std::uint64_t pass) {
  const std::lock_guard lock(running_);
  return run(pass, [&] {
    std::vector<std::vector<Tensor>> gradients;
    {
      const std::lock_guard reading(lists_);
      for (const auto& received : received_) gradients.push_back(received->gradients);
    }
    open(pass, {}, true);
    const std::lock_guard writing(lists_);
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      std::ranges::copy(gradients[i], received_[i]->gradients.begin());
    }
  });
}

Progress ContextPart::take(std::uint64_t pass, const Gradients& gradients) {
  const std::lock_guard lock(running_);
  if (is_older(pass, pass_)) {
    throw Error("gradients arrived late: a newer backward pass of the same context has started");
  }
  return run(pass, [&] {
    if (pass_ != pass) open(pass, {}, false);
    give(gradients);
  });
}

void ContextPart::give(const Gradients& gradients) {
  std::vector<Variable> variables;
  {
    const std::lock_guard lock(lists_);
    const auto place = std::ranges::find(sent_, gradients.message, &Sent::message);
    if (place != sent_.end()) variables = place->variables;
  }
  const auto& values = gradients.values;
  if (variables.size() != values.size()) {
    throw Error(fmt::format("{} gradients arrived for {} variables of message {}", values.size(),
                            variables.size(), gradients.message));
  }
  const auto awaited = std::ranges::find(awaited_, gradients.message);
  const auto give_to = [&](StagedBackward& pass) {
    for (std::size_t i = 0; i < variables.size(); ++i) pass.give(variables[i], values[i]);
    pass.run();
  };
  if (waits_for_all_ && awaited != awaited_.end()) {
    awaited_.erase(awaited);
    give_to(*stages_);
  } else {
    // the sender does not wait any more, so it may send several parts of one message
    stop_waiting();
    StagedBackward alone(variables, store_);
    give_to(alone);
  }
}

void ContextPart::stop_waiting() {
  if (std::exchange(waits_for_all_, false)) stages_->run_all();
}

Progress ContextPart::progress() {
  Progress progress{.waits = waits_for_all_ && stages_->waits()};
  const std::lock_guard lock(lists_);
  for (const auto& message : received_) {
    const auto is_known = [&](const Variable& v) { return !v.awaits_gradient(); };
    const bool sends = waits_for_all_
                           ? !message->answered && std::ranges::all_of(message->variables, is_known)
                           : std::ranges::any_of(message->gradients, &Tensor::defined);
    if (!sends) continue;
    message->answered = true;
    progress.outgoing.push_back({message->from, {message->message, message->gradients}});
    std::ranges::fill(message->gradients, Tensor());
  }
  return progress;
}

std::optional<Progress> ContextPart::finish(std::uint64_t pass) {
  const std::lock_guard lock(running_);
  if (is_older(pass, pass_) || std::exchange(finished_, pass) == pass) return std::nullopt;
  return run(pass, [&] {
    if (pass_ == pass) return stop_waiting();
    forget_pass(pass);
    store_.begin_pass(/*keeps_apart=*/false);
    waits_for_all_ = false;
  });
}

Tensor ContextPart::gradient(const Variable& leaf) const {
  const std::lock_guard lock(running_);
  return store_.gradient(leaf);
}

std::vector<std::pair<Variable, Tensor>> ContextPart::gradients() const {
  const std::lock_guard lock(running_);
  return store_.gradients();
}

std::set<int> ContextPart::neighbours() const {
  const std::lock_guard lock(lists_);
  return neighbours_;
}

std::set<int> ContextPart::partners() const {
  const std::lock_guard lock(lists_);
  std::set<int> partners = neighbours_;
  for (const auto& received : received_) partners.insert(received->from);
  return partners;
}

// ---- Contexts

std::uint64_t next_number() {
  static std::atomic<std::uint64_t> last = 0;
  return (static_cast<std::uint64_t>(rpc::this_worker().id) << 48U) + ++last;
}

std::shared_ptr<ContextPart> part_of(std::uint64_t context) {
  auto part = Contexts::of(rpc::Agent::current()).find(context);
  if (!part) {
    throw Error(
        fmt::format("context {:#x} of distributed autograd is unknown on this rank: it has ended, "
                    "or none of its calls has reached this rank",
                    context));
  }
  return part;
}

Contexts& Contexts::of(const rpc::Agent& agent) {
  static std::mutex mutex;
  static auto* all = new std::map<int, Contexts>;  // of the ranks that are threads of this process
  const std::lock_guard lock(mutex);
  return (*all)[agent.id()];
}

std::shared_ptr<ContextPart> Contexts::find(std::uint64_t id) const {
  const std::lock_guard lock(mutex_);
  const auto place = parts_.find(id);
  return place == parts_.end() ? nullptr : place->second;
}

std::shared_ptr<ContextPart> Contexts::find_or_make(std::uint64_t id) {
  const std::lock_guard lock(mutex_);
  const auto place = parts_.find(id);
  if (place != parts_.end()) return place->second;
  if (std::ranges::find(ended_, id) != ended_.end()) return nullptr;
  return parts_.emplace(id, std::make_shared<ContextPart>(id)).first->second;
}

std::shared_ptr<ContextPart> Contexts::remove(std::uint64_t id) {
  const std::lock_guard lock(mutex_);
  ended_[next_ended_++ % ended_.size()] = id;
  const auto node = parts_.extract(id);
  return node.empty() ? nullptr : node.mapped();
}

std::size_t Contexts::size() const {
  const std::lock_guard lock(mutex_);
  return parts_.size();
}

}  // namespace lockstep::dist_autograd
