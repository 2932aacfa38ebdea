#pragma once
#include <array>
#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include <lockstep/autograd/grad_store.hpp>
#include <lockstep/autograd/pass_observer.hpp>
#include <lockstep/autograd/staged_backward.hpp>
#include <lockstep/rpc/rpc.hpp>

namespace lockstep::dist_autograd {

/// Gradients of a message's variables, on their way to its sender.
struct Gradients {
  std::uint64_t message = 0;
  std::vector<Tensor> values;  ///< undefined: none

  template <class Archive>
  void serialize(Archive& archive) {
    archive(message, values);
  }
};

/// The parts of the graph that a pass has reached on a rank.
struct Progress {
  struct Outgoing {
    int to;
    Gradients gradients;
  };
  std::vector<Outgoing> outgoing;
  bool waits = false;  ///< for gradients that have not come
};

class ContextPart;

/// Variables that arrived with one message; here they are results of their sender's variables.
struct Received {
  std::weak_ptr<ContextPart> part;
  std::uint64_t message;  ///< chosen by the sender, within the context
  int from;
  std::vector<Variable> variables;
  std::vector<Tensor> gradients;  ///< as far as the pass at hand has them; undefined: none
  bool answered = false;          ///< in the pass at hand: they have been sent back
};

/// One rank's part of a context. Thread-safe.
class ContextPart : public std::enable_shared_from_this<ContextPart> {
 public:
  explicit ContextPart(std::uint64_t id) : continuation_(*this), id_(id) {}
  [[nodiscard]] std::uint64_t id() const noexcept { return id_; }
  /// A number for a message that is about to be written.
  [[nodiscard]] std::uint64_t next_message() noexcept { return ++messages_; }
  /// Makes a call to that rank.
  void add_neighbour(int worker);
  /// A variable of that message, in order.
  void add_sent(std::uint64_t message, const Variable& variable);
  /// The results that represent that message's variables here, in order.
  [[nodiscard]] Variable add_received(std::uint64_t message, int from, Tensor value);

  // After an error on one rank, the others throw it for the rest of the pass.

  /// Begins a pass from losses of this rank.
  [[nodiscard]] Progress begin(std::uint64_t pass, std::span<const Variable> losses);
  /// Starts a pass where one of Variable::backward has ended: at variables that came from other
  /// ranks.
  [[nodiscard]] Progress begin_continued(std::uint64_t pass);
  /// Gradients have come. Throws Error if they belong to a pass older than the current one, which
  /// was abandoned: the current pass ignores them.
  [[nodiscard]] Progress take(std::uint64_t pass, const Gradients& gradients);
  /// No rank has anything to do any more: none waits from now on for gradients that have not come.
  /// Does nothing for a pass that has been finished here before, or is older than the current one.
  [[nodiscard]] std::optional<Progress> finish(std::uint64_t pass);

  /// Ends a pass that started here: notifies observers of leaves that it has reached.
  void tell_observers();
  /// Called after a pass that started here, even if it failed.
  void end_pass();
  /// Registered to run after a pass of Variable::backward that reaches variables from other ranks:
  /// continues the pass there.
  [[nodiscard]] PassObserver& continuation() noexcept { return continuation_; }

  [[nodiscard]] Tensor gradient(const Variable& leaf) const;
  [[nodiscard]] std::vector<std::pair<Variable, Tensor>> gradients() const;
  /// The ranks that this rank has called within the context.
  [[nodiscard]] std::set<int> neighbours() const;
  /// These, and the ranks whose variables arrived here: a pass may start on any rank.
  [[nodiscard]] std::set<int> partners() const;

 private:
  class Continuation final : public PassObserver {
   public:
    explicit Continuation(ContextPart& part) : part_(part) {}
    void pass_is_over() override;
    std::shared_ptr<void> owner() override;
    void pass_has_failed() noexcept override { part_.forget_received(); }

   private:
    ContextPart& part_;
  };
  struct Sent {
    std::uint64_t message;
    std::vector<Variable> variables;
  };

  template <class Step>
  [[nodiscard]] Progress run(std::uint64_t pass, const Step& step);
  void forget_pass(std::uint64_t next);
  void forget_received() noexcept;
  /// Throws Error if the pass has reached an observed leaf but started on another rank.
  void expect_not_observed() const;
  void open(std::uint64_t pass, std::span<const Variable> losses, bool begun_here);
  void give(const Gradients& gradients);
  void stop_waiting();
  /// Sends the known gradients of variables to the ranks they came from.
  [[nodiscard]] Progress progress();

  Continuation continuation_;
  const std::uint64_t id_;
  std::atomic<std::uint64_t> messages_ = 0;

  mutable std::mutex lists_;  // guards the members that forward writes
  std::vector<Sent> sent_;
  std::vector<std::shared_ptr<Received>> received_;
  std::set<int> neighbours_;

  mutable std::mutex running_;  // guards the rest; taken before lists_
  std::uint64_t pass_ = 0, finished_ = 0;
  bool begun_here_ = false;     ///< the pass at hand
  std::exception_ptr failure_;  ///< of the pass at hand
  bool waits_for_all_ = false;  ///< the pass at hand is run operation by operation, once each
  GradStore store_;
  std::unique_ptr<StagedBackward> stages_;
  std::vector<std::uint64_t> awaited_;  ///< messages whose variables are roots of stages_
};

/// The contexts that a worker knows.
class Contexts {
 public:
  static Contexts& of(const rpc::Agent& agent);

  /// nullptr if there is no such context.
  [[nodiscard]] std::shared_ptr<ContextPart> find(std::uint64_t id) const;
  /// nullptr if it has ended: a call that arrives late, or a function that outlives the context of
  /// its call, does not make it anew, as nobody would end it again.
  [[nodiscard]] std::shared_ptr<ContextPart> find_or_make(std::uint64_t id);
  /// The context has ended. nullptr if there is no such context.
  std::shared_ptr<ContextPart> remove(std::uint64_t id);
  [[nodiscard]] std::size_t size() const;

 private:
  mutable std::mutex mutex_;
  std::unordered_map<std::uint64_t, std::shared_ptr<ContextPart>> parts_;
  /// The newest that have ended, from next_ended_ on the oldest first. 0: none.
  std::array<std::uint64_t, 1024> ended_{};
  std::size_t next_ended_ = 0;
};

/// The data that a message within a context carries besides its arguments.
struct Tag {
  std::uint64_t context, message;
};

/// The calling rank's part. Throws Error if it has none.
[[nodiscard]] std::shared_ptr<ContextPart> part_of(std::uint64_t context);
/// A number unique over all ranks: the upper 16 bits are the worker's id.
[[nodiscard]] std::uint64_t next_number();

/// While it lives, this thread's calls belong to that context; 0: to none.
class CallsWithin {
 public:
  explicit CallsWithin(std::uint64_t context) noexcept;
  ~CallsWithin();
  CallsWithin(const CallsWithin&) = delete;
  CallsWithin& operator=(const CallsWithin&) = delete;

 private:
  std::uint64_t before_;
};

}  // namespace lockstep::dist_autograd
