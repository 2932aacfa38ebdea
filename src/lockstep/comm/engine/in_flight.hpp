#pragma once
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include <lockstep/comm/engine/device_staging.hpp>
#include <lockstep/comm/engine/traced_call.hpp>
#include <lockstep/comm/operation.hpp>
#include <lockstep/comm/work.hpp>

namespace lockstep {

class GroupCore;

/// What a rank finds when it compares its call with the other ranks'.
enum class CallMatch : std::uint8_t { pending, equal, different };

/// What moving an operation on came to: it only waits for others, it has come further, it is over.
enum class Motion : std::uint8_t { none, some, over };

/// What a wait is for: the operation is over, or the current stream is behind it.
enum class Until : std::uint8_t { ordered, over };

/// Why an operation cannot go on. A backend throws it; GroupCore ends the group and throws what
/// users get, with rank and operation in the message.
class OperationFailure : public std::runtime_error {
 public:
  enum class Kind : std::uint8_t {
    mismatch,   ///< ranks have made different calls: which
    finding,    ///< what the operation found out
    revoked,    ///< another rank has ended the group: why
    transport,  ///< an error of what moves the bytes, in its own words
    time_out    ///< it is not over by the deadline
  };
  /// `operation`: whose failure it is, if not that of the operation that is being moved on.
  OperationFailure(Kind kind, const std::string& words, const Operation* operation = nullptr)
      : std::runtime_error(words), kind_(kind), operation_(operation) {}
  [[nodiscard]] static OperationFailure time_out(double waited_s) {
    OperationFailure failure(Kind::time_out, "");
    failure.waited_s_ = waited_s;
    return failure;
  }

  [[nodiscard]] Kind kind() const noexcept { return kind_; }
  [[nodiscard]] const Operation* operation() const noexcept { return operation_; }
  [[nodiscard]] double waited_s() const noexcept { return waited_s_; }

 private:
  Kind kind_;
  const Operation* operation_;
  double waited_s_ = 0;
};

/// One operation in flight. GroupCore moves it on in two phases, each a function of the backend: a
/// collective's rendezvous, until every rank has posted the same call; then the transfer. A message
/// has a transfer only. A staged operation is held before, until its device has come to it, and
/// with it those that follow; after the transfer its result goes back to the device. The core's
/// list owns the record until the operation is over. Its waits poll the core.
class InFlight : public WorkRecord {
 public:
  bool poll() final;
  void wait() final { wait_until(Until::ordered); }
  bool wait_for(std::chrono::microseconds at_most, std::chrono::microseconds awake) final;
  void cancel() final;
  void synchronize() final { wait_until(Until::over); }
  [[nodiscard]] std::string awaited() const final;

  [[nodiscard]] const Operation& operation() const noexcept { return operation_; }

 protected:
  InFlight(IntrusivePtr<GroupCore>&& core, Operation&& operation);
  ~InFlight() override;

  // These throw OperationFailure where the operation cannot go on.

  /// Posts this rank's call, as soon as there is room for it, and compares it with the others' once
  /// `is_next`: the ranks agree on collectives in the order of the calls. True when all ranks have
  /// made this call, as far as the group's contract wants to know.
  [[nodiscard]] virtual bool rendezvous(bool is_next) = 0;
  /// Moves the data: the first call chooses the algorithm and launches it. Goes as far as it can
  /// without waiting, or one turn where others should get theirs; over once the result stands.
  [[nodiscard]] virtual Motion transfer() = 0;
  /// For a wait() of the calling thread: where a device runs the operation, puts the thread's
  /// current stream behind it and returns true, so that the wait ends though the operation goes on.
  [[nodiscard]] virtual bool order_stream() { return false; }
  /// The caller wants no message any more: if none is here, transfer() ends without one, soon.
  virtual void cancel_receive() noexcept {}

 private:
  friend class GroupCore;
  enum class Phase : std::uint8_t { held, rendezvous, transfer, back, done, failed };
  struct BackOff;
  [[nodiscard]] bool in_flight() const noexcept { return phase_ < Phase::done; }
  [[nodiscard]] bool order() {
    if (!staging_) return order_stream();
    if (phase_ == Phase::back) staging_->order_stream();
    return phase_ == Phase::back;
  }
  void wait_until(Until until);
  [[nodiscard]] bool spin(Until until);
  [[nodiscard]] bool poll_with(const BackOff& usual, Until until,
                               std::chrono::microseconds at_most);

  IntrusivePtr<GroupCore> core_;
  Operation operation_;
  std::optional<DeviceStaging> staging_;  // none where the backend takes the tensors as they are
  Phase phase_ = Phase::rendezvous;
  bool gives_up_ = false;     // cancel() came while it was held
  std::uint64_t ticket_ = 0;  // of the flight recorder
  TracedCall traced_;
  InFlight* previous_ = nullptr;
  InFlight* next_ = nullptr;
};

}  // namespace lockstep
