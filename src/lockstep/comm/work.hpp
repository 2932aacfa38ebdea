#pragma once
#include <string>
#include <utility>

#include <lockstep/tensor/tensor.hpp>

namespace lockstep {

/// The record behind a Work: what a backend derives its own from. Pooled; it keeps the operation's
/// tensors alive until the operation is over, whether or not anybody still holds the Work.
class WorkRecord : public RefCounted<WorkRecord> {
 public:
  /// Advances the operation without blocking; true once it is over. Throws what failed.
  virtual bool poll() = 0;
  /// Blocks until over or until the group's deadline, which throws TimeoutError and poisons the
  /// group.
  virtual void wait() = 0;
  /// Blocks the host until over, on any device; wait() may only make a stream wait.
  virtual void synchronize() { wait(); }
  /// The sender of a message that has been received; -1 for everything else.
  [[nodiscard]] virtual int source() const noexcept { return -1; }
  /// Which ranks the operation waits for, in words; empty where that is not known. For messages.
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

  /// Makes the current stream wait for the result; on the host: blocks until it may be read here.
  /// Throws TimeoutError at the group's deadline, CommError if a peer or MPI failed.
  void wait() {
    if (record_) record_->wait();
  }
  /// Blocks the host until the operation is over, on any device.
  void synchronize() {
    if (record_) record_->synchronize();
  }
  /// True once the operation is over, on any device. Also drives progress where nothing else does.
  [[nodiscard]] bool test() { return !record_ || record_->poll(); }
  /// After wait(): the sender's rank if this was an irecv, else -1.
  [[nodiscard]] int source() const noexcept { return record_ ? record_->source() : -1; }
  /// Which ranks the operation waits for, in words: "rank 1 has not entered it (...)"; empty where
  /// that is not known or nobody is waited for.
  [[nodiscard]] std::string awaited() const { return record_ ? record_->awaited() : ""; }

 private:
  IntrusivePtr<WorkRecord> record_;
};

}  // namespace lockstep
