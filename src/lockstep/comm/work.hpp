#pragma once
#include <chrono>
#include <string>
#include <utility>

#include <lockstep/tensor/tensor.hpp>

namespace lockstep {

/// The record behind a Work; backends derive theirs from it. Pooled; it keeps the operation's
/// tensors alive until the operation is over, whether or not anybody still holds the Work.
class WorkRecord : public RefCounted<WorkRecord> {
 public:
  /// Advances the operation without blocking; true once it is over. Throws the operation's error.
  virtual bool poll() = 0;
  /// Blocks until over or until the group's deadline, which throws TimeoutError and poisons the
  /// group.
  virtual void wait() = 0;
  /// Blocks until over, but not for longer than `at_most`; true once it is over. Polls for `awake`
  /// before it sleeps; see Work and MessagePort. Throws the operation's error.
  virtual bool wait_for(std::chrono::microseconds at_most, std::chrono::microseconds awake) = 0;
  /// Blocks the host until over, on any device; wait() may only make a stream wait.
  virtual void synchronize() { wait(); }
  /// The sender of a message that has been received; -1 for everything else.
  [[nodiscard]] virtual int source() const noexcept { return -1; }
  /// The message received, for a receive of unknown length.
  [[nodiscard]] virtual Tensor message() const { return {}; }
  /// Asks that a receive be given up.
  virtual void cancel() {}
  /// It was, and no message has come.
  [[nodiscard]] virtual bool cancelled() const noexcept { return false; }
  /// The ranks the operation waits for, in words; empty if unknown. For messages.
  [[nodiscard]] virtual std::string awaited() const { return ""; }

 protected:
  WorkRecord() = default;
  virtual ~WorkRecord() = default;

 private:
  friend class RefCounted<WorkRecord>;
  /// The last handle is gone: recycle now if the operation is over, else once it is.
  virtual void release() noexcept = 0;
};

/// One communication that has been started: a small movable handle. Dropping it does not cancel
/// the operation, and the buffers stay alive until it is over.
class Work {
 public:
  Work() = default;  ///< an operation that is over already
  explicit Work(IntrusivePtr<WorkRecord> record) : record_(std::move(record)) {}

  /// Makes the current stream wait for the result; on the host: blocks until the result may be
  /// read. Throws TimeoutError at the group's deadline, CommError if a peer or MPI failed.
  void wait() {
    if (record_) record_->wait();
  }
  /// Waits, but not for longer than `at_most`: true once the operation is over. For waits without
  /// limit: no deadline fails the group here. Polls for 0.2 ms, then sleeps until a rank of its
  /// machine sends a message on this group. Meanwhile it polls this and other groups after each
  /// further eighth of the time waited, every 2 ms at least (8 ms if all ranks of the group share
  /// the machine).
  [[nodiscard]] bool wait_for(std::chrono::microseconds at_most) {
    return !record_ || record_->wait_for(at_most, std::chrono::microseconds{200});
  }
  /// Blocks the host until the operation is over, on any device.
  void synchronize() {
    if (record_) record_->synchronize();
  }
  /// True once the operation is over, on any device. Also drives progress if nothing else does.
  [[nodiscard]] bool test() { return !record_ || record_->poll(); }
  /// After wait(): the sender's rank if this was an irecv, else -1.
  [[nodiscard]] int source() const noexcept { return record_ ? record_->source() : -1; }
  /// After wait(): the bytes that MessagePort::irecv got, u8 [length]; not defined for everything
  /// else.
  [[nodiscard]] Tensor message() const { return record_ ? record_->message() : Tensor(); }

  /// Requests cancellation of a receive; does nothing for other operations. wait() then no longer
  /// waits for a sender: it returns with the message if it has arrived, else without one.
  void cancel() {
    if (record_) record_->cancel();
  }
  /// After cancel() and wait(): no message has come, and none will into this tensor.
  [[nodiscard]] bool cancelled() const noexcept { return record_ && record_->cancelled(); }
  /// The ranks the operation waits for, in words: "rank 1 has not entered it (...)"; empty if
  /// unknown or none.
  [[nodiscard]] std::string awaited() const { return record_ ? record_->awaited() : ""; }

 private:
  friend class MessagePort;

  IntrusivePtr<WorkRecord> record_;
};

}  // namespace lockstep
