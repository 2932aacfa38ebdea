#include <lockstep/rpc/agent.hpp>
#include <lockstep/rpc/backward_pass.hpp>

#include <algorithm>
#include <atomic>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include <lockstep/rpc/autograd_context.hpp>
#include <lockstep/rpc/rpc.hpp>

namespace lockstep::dist_autograd {
namespace {

/// The answer to gradients that were sent.
struct Outcome {
  bool waits = false;  ///< some rank waits for gradients that have not arrived
  std::vector<Gradients> returned;

  template <class Archive>
  void serialize(Archive& archive) {
    archive(waits, returned);
  }
};
using Outcomes = std::vector<rpc::Future<Outcome>>;

rpc::Future<Outcome> propagate(std::uint64_t context, std::uint64_t pass, int from,
                               const Gradients& gradients);
rpc::Future<Outcome> finish_pass(std::uint64_t context, std::uint64_t pass);
LOCKSTEP_RPC_AS("lockstep::dist_autograd::propagate", propagate);
LOCKSTEP_RPC_AS("lockstep::dist_autograd::finish_pass", finish_pass);

/// A pass, on a rank that takes part in it.
struct Pass {
  std::uint64_t context, number;
  std::shared_ptr<ContextPart> part = part_of(context);

  /// Sends a rank's outgoing gradients to the other ranks.
  void send(const Progress& progress, Outcomes& sent) const {
    const CallsWithin none(0);
    for (const auto& [to, gradients] : progress.outgoing) {
      sent.push_back(
          rpc::rpc_async(to, propagate, context, number, rpc::this_worker().id, gradients));
    }
  }
  void finish_elsewhere(Outcomes& sent) const {
    const CallsWithin none(0);
    for (const int partner : part->partners()) {
      sent.push_back(rpc::rpc_async(partner, finish_pass, context, number));
    }
  }
  /// Takes the gradients returned with an answer.
  [[nodiscard]] Outcomes take(const Outcome& outcome, bool& waits) const {
    Outcomes sent;
    waits = waits || outcome.waits;
    for (const Gradients& gradients : outcome.returned) {
      const Progress progress = part->take(number, gradients);
      waits = waits || progress.waits;
      send(progress, sent);
    }
    return sent;
  }
};

/// Waits for calls and for the calls that their answers lead to. Returns true if some rank waits
/// for gradients then. Throws the first failure after all calls are over.
bool await_all(const Pass& pass, Outcomes sent, bool waits) {
  std::exception_ptr failure;
  for (std::size_t i = 0; i < sent.size(); ++i) {
    try {
      const Outcomes more = pass.take(std::exchange(sent[i], {}).wait(), waits);
      sent.insert(sent.end(), more.begin(), more.end());
    } catch (...) {
      if (!failure) failure = std::current_exception();
    }
  }
  if (failure) std::rethrow_exception(failure);
  return waits;
}

/// The same as a Future.
class Following : public std::enable_shared_from_this<Following> {
 public:
  explicit Following(Pass pass) : pass_(std::move(pass)) {}

  [[nodiscard]] rpc::Future<Outcome> follow(const Outcomes& sent, bool waits) {
    waits_ = waits;
    auto outcome = promise_.future();
    add(sent);
    one_less();
    return outcome;
  }

 private:
  void add(const Outcomes& sent) {
    left_.fetch_add(static_cast<int>(sent.size()));
    for (const auto& one : sent) {
      one.then([self = shared_from_this()](const rpc::Future<Outcome>& done) { self->over(done); });
    }
  }
  void over(const rpc::Future<Outcome>& done) {
    try {
      bool waits = false;
      const Outcomes more = pass_.take(done.wait(), waits);
      if (waits) waits_ = true;
      add(more);
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (!failure_) failure_ = std::current_exception();
    }
    one_less();
  }
  void one_less() {
    if (left_.fetch_sub(1) > 1) return;
    if (failure_) {
      promise_.set_exception(failure_);
    } else {
      promise_.set_value(Outcome{.waits = waits_});
    }
  }

  Pass pass_;
  std::atomic<int> left_ = 1;
  std::atomic<bool> waits_ = false;
  std::mutex mutex_;
  std::exception_ptr failure_;
  rpc::Promise<Outcome> promise_;
};

rpc::Future<Outcome> there(Outcome outcome) {
  const rpc::Promise<Outcome> promise;
  promise.set_value(std::move(outcome));
  return promise.future();
}

rpc::Future<Outcome> propagate(std::uint64_t context, std::uint64_t number, int from,
                               const Gradients& gradients) {
  const Pass pass{context, number};
  Progress progress = pass.part->take(number, gradients);
  if (std::ranges::all_of(progress.outgoing, [&](const auto& one) { return one.to == from; })) {
    Outcome outcome{.waits = progress.waits};
    for (auto& one : progress.outgoing) outcome.returned.push_back(std::move(one.gradients));
    return there(std::move(outcome));
  }
  Outcomes sent;
  pass.send(progress, sent);
  return std::make_shared<Following>(pass)->follow(sent, progress.waits);
}

rpc::Future<Outcome> finish_pass(std::uint64_t context, std::uint64_t number) {
  const auto part = Contexts::of(rpc::Agent::current()).find(context);
  if (!part) return there({});  // no call in this context has reached this rank
  const Pass pass{context, number, part};
  const std::optional<Progress> progress = part->finish(number);
  if (!progress) return there({});
  Outcomes sent;
  pass.send(*progress, sent);
  pass.finish_elsewhere(sent);
  return std::make_shared<Following>(pass)->follow(sent, false);
}

struct Ending {
  ContextPart& part;
  ~Ending() { part.end_pass(); }
};

/// Runs the rest of a pass that this rank began; `begun` is the result of its first stage here.
void complete(const Pass& pass, const Progress& begun) {
  Outcomes sent;
  pass.send(begun, sent);
  if (!await_all(pass, std::move(sent), begun.waits)) return;
  const std::optional<Progress> finished = pass.part->finish(pass.number);
  if (!finished) return;
  sent = {};
  pass.send(*finished, sent);
  pass.finish_elsewhere(sent);
  await_all(pass, std::move(sent), false);
}

}  // namespace

void run_backward_pass(std::uint64_t context, std::span<const Variable> losses) {
  const Pass pass{context, next_number()};
  const Ending ending{*pass.part};
  complete(pass, pass.part->begin(pass.number, losses));
  pass.part->tell_observers();
}

void continue_pass(const std::shared_ptr<ContextPart>& part) {
  const Pass pass{part->id(), next_number(), part};
  const Ending ending{*part};
  complete(pass, part->begin_continued(pass.number));
  part->tell_observers();
}

}  // namespace lockstep::dist_autograd
