#pragma once
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

/// Gradients of the variables of a message, on their way to who sent it.
struct Gradients {
  std::uint64_t message = 0;
  std::vector<Tensor> values;  ///< undefined: none

  template <class Archive>
  void serialize(Archive& archive) {
    archive(message, values);
  }
};

/// What a pass has come to on a rank.
struct Progress {
  struct Outgoing {
    int to;
    Gradients gradients;
  };
  std::vector<Outgoing> outgoing;
  bool waits = false;  ///< for gradients that have not come
};

class ContextPart;

/// Variables that came with one message, results here of what their sender has.
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
  /// A call goes there.
  void add_neighbour(int worker);
  /// A variable of that message, in order.
  void add_sent(std::uint64_t message, const Variable& variable);
  /// The result that stands here for a variable of that message, in order.
  [[nodiscard]] Variable add_received(std::uint64_t message, int from, Tensor value);

  // What one of these has thrown, the others throw for the rest of the pass.

  /// Begins a pass from losses of this rank.
  [[nodiscard]] Progress begin(std::uint64_t pass, std::span<const Variable> losses);
  /// Begins a pass where one of Variable::backward has ended: at variables that came from
  /// elsewhere.
  [[nodiscard]] Progress begin_continued(std::uint64_t pass);
  /// Gradients have come. Throws Error if they are of an older pass than the one at hand, which was
  /// given up: it goes on as if they had not come.
  [[nodiscard]] Progress take(std::uint64_t pass, const Gradients& gradients);
  /// No rank has anything to do any more: none waits from now on for gradients that have not come.
  /// Nothing for a pass that has been finished here before, or is older than the one at hand.
  [[nodiscard]] std::optional<Progress> finish(std::uint64_t pass);

  /// The pass, which was begun here, is over: observers of leaves that it has come to are told.
  void tell_observers();
  /// After a pass that was begun here, also one that has failed.
  void end_pass();
  /// Asked to be told when a pass of Variable::backward that comes to variables from elsewhere is
  /// over, it goes on there.
  [[nodiscard]] PassObserver& continuation() noexcept { return continuation_; }

  [[nodiscard]] Tensor gradient(const Variable& leaf) const;
  [[nodiscard]] std::vector<std::pair<Variable, Tensor>> gradients() const;
  /// Whom this rank has called within the context.
  [[nodiscard]] std::set<int> neighbours() const;
  /// These, and whose variables have come here: a pass may begin on any rank.
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
  /// Throws Error where a leaf that the pass has come to is observed: it was begun elsewhere.
  void expect_not_observed() const;
  void open(std::uint64_t pass, std::span<const Variable> losses, bool begun_here);
  void give(const Gradients& gradients);
  void stop_waiting();
  /// What is known of variables' gradients goes to where these came from.
  [[nodiscard]] Progress progress();

  Continuation continuation_;
  const std::uint64_t id_;
  std::atomic<std::uint64_t> messages_ = 0;

  mutable std::mutex lists_;  // guards what forward writes
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

/// The contexts that a worker knows of.
class Contexts {
 public:
  static Contexts& of(const rpc::Agent& agent);

  [[nodiscard]] std::shared_ptr<ContextPart> find(std::uint64_t id) const;
  [[nodiscard]] std::shared_ptr<ContextPart> find_or_make(std::uint64_t id);
  /// nullptr if it is not there.
  std::shared_ptr<ContextPart> remove(std::uint64_t id);
  [[nodiscard]] std::size_t size() const;

 private:
  mutable std::mutex mutex_;
  std::unordered_map<std::uint64_t, std::shared_ptr<ContextPart>> parts_;
};

/// What a message within a context brings beside its arguments.
struct Tag {
  std::uint64_t context, message;
};

/// The calling rank's part. Throws Error if it has none.
[[nodiscard]] std::shared_ptr<ContextPart> part_of(std::uint64_t context);
/// A number that no other rank gives: the worker's id stands in the upper 16 bits.
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
