#pragma once
#include <cstdint>
#include <string>
#include <utility>

#include <lockstep/comm/engine/traced_call.hpp>
#include <lockstep/comm/operation.hpp>
#include <lockstep/comm/work.hpp>

namespace lockstep {

class GroupCore;

/// What a rank finds when it looks for the other ranks' calls.
enum class Agreement : std::uint8_t { pending, reached, refused };

/// What moving an operation on came to: it only waits for others, it has come further, it is over.
enum class Motion : std::uint8_t { none, some, over };

/// One operation in flight: what the engine asks a backend to do for it, in this order. A message
/// begins at once; a collective when every rank has posted the same call. The core's list owns the
/// record until the operation is over.
class InFlight : public WorkRecord {
 public:
  bool poll() final;
  void wait() final;
  bool wait_for(std::chrono::microseconds at_most, std::chrono::microseconds awake) final;
  void cancel() final;
  void synchronize() final;
  [[nodiscard]] std::string awaited() const final;

  [[nodiscard]] const Operation& operation() const noexcept { return operation_; }

 protected:
  InFlight(IntrusivePtr<GroupCore>&& core, Operation&& operation);
  ~InFlight() override;

  /// Shows this rank's call to the others; false while there is no room for it.
  [[nodiscard]] virtual bool post() = 0;
  /// Whether all ranks have made this call, as far as the group's contract wants to know.
  [[nodiscard]] virtual Agreement agree() = 0;
  /// After a refusal, who called what: "rank 1 called broadcast(root 0) #3 of f32[4], another
  /// root".
  [[nodiscard]] virtual std::string dispute() = 0;
  /// Chooses a way and sets out.
  virtual void begin() = 0;
  /// Goes as far as it can without waiting, or one turn where others should get theirs; over once
  /// the result stands.
  [[nodiscard]] virtual Motion move() = 0;
  /// The caller wants no message any more: if none is here, move() is to end without one, soon.
  virtual void give_up() noexcept {}
  /// For a wait() of the calling thread: where a device runs the operation, puts the thread's
  /// current stream behind it and returns true, so that the wait ends though the operation goes on.
  [[nodiscard]] virtual bool order_stream() { return false; }

 private:
  friend class GroupCore;
  enum class Phase : std::uint8_t { posting, agreeing, moving, done, failed };
  [[nodiscard]] bool in_flight() const noexcept { return phase_ < Phase::done; }

  IntrusivePtr<GroupCore> core_;
  Operation operation_;
  Phase phase_ = Phase::posting;
  std::uint64_t ticket_ = 0;  // of the flight recorder
  TracedCall traced_;
  InFlight* previous_ = nullptr;
  InFlight* next_ = nullptr;
};

}  // namespace lockstep
