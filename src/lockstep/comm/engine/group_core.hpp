#pragma once
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <lockstep/base/spin_lock.hpp>
#include <lockstep/comm/engine/event_count.hpp>
#include <lockstep/comm/engine/in_flight.hpp>
#include <lockstep/comm/engine/kept_memory.hpp>
#include <lockstep/comm/engine/progress_engine.hpp>
#include <lockstep/comm/engine/work_clock.hpp>
#include <lockstep/comm/flight/recorder.hpp>
#include <lockstep/comm/group_options.hpp>
#include <lockstep/comm/process_group.hpp>

namespace lockstep {

/// The rules of every group, whatever moves its bytes: operations are numbered, recorded, compared
/// (GroupOptions::contract), moved on in order, and waited for until a deadline; a failure poisons
/// the group, and what was in flight is kept. What a group and its Works share: it outlives the
/// group. A backend derives its own, and an InFlight for its operations.
class GroupCore : public RefCounted<GroupCore>, public EngineMember {
 public:
  [[nodiscard]] int rank() const noexcept { return rank_; }
  [[nodiscard]] int size() const noexcept { return size_; }
  [[nodiscard]] const GroupOptions& options() const noexcept { return options_; }
  [[nodiscard]] WorkClock& clock() noexcept { return clock_; }
  [[nodiscard]] std::string rank_name() const;  ///< "rank 1 of 4 of group tp (node12)"
  void take_name(const std::string& name);      ///< of the group

  /// Numbers the operation, records it and moves it on as far as it goes without waiting.
  [[nodiscard]] Work start(Operation&& operation);
  /// Throws where no call is possible any more.
  void expect_usable();
  /// Waits for all that is in flight here.
  void drain();
  /// drain(), then waits for every rank to have done so; afterwards the group is closed. False if
  /// it was closed before. Collective.
  [[nodiscard]] bool drain_and_close();

  bool progress_if_free() noexcept override;
  [[nodiscard]] std::string oldest_in_flight() override;

  // For the waits of its operations:
  /// Moves this group on; over once that is what `until` waits for. Throws what ended the group.
  [[nodiscard]] Motion poll(InFlight& work, Until until);
  [[nodiscard]] bool has_been_entered_by_all(const InFlight& work) const;
  /// Ends the group by a TimeoutError, unless the operation is over by now.
  void expire(const InFlight& work, double waited_s);
  void cancel(InFlight& work);
  /// Advances the transport although the wait does not need it: a rank that sent to this one may
  /// wait for the answer, and MPI may give it in a later call only. Cheap to call often.
  /// Not for the engine's thread: with calls of its own at any time, MPI_Finalize of MPICH 4.0.2
  /// failed in 6 of 60 runs on a busy machine (pthread_mutex_destroy), and in none of 120 without.
  virtual void progress_transport() noexcept {}
  /// What Work::awaited() says.
  [[nodiscard]] std::string awaited(const InFlight& work) const;
  /// What wakes this rank when a message has been sent to it.
  [[nodiscard]] virtual EventCount& event() noexcept { return own_event_; }
  /// Whether every rank that may send it one notifies that.
  [[nodiscard]] virtual bool is_notified_by_all() const noexcept { return false; }

 protected:
  friend class RefCounted<GroupCore>;
  explicit GroupCore(const GroupOptions& options);
  ~GroupCore() override = default;
  void release() noexcept { delete this; }

  void introduce(int rank, int size, std::string host);
  void record_flight(FlightLog&& log) { flight_ = std::move(log); }
  /// From now on other threads and the waits of other groups move this one on, if threads may.
  void join_engine(bool threads_allowed);
  /// The group ends without a failure; what is in flight is kept. True if it was open and idle. Not
  /// by who holds the lock.
  bool finalize(const std::string& reason) noexcept;
  void expect_callable();  ///< expect_usable() by who holds the lock
  /// Throws Error where this thread captures a graph and the operation would use its device.
  void expect_outside_of_captures(const Operation& operation) const;
  [[nodiscard]] bool is_of_capturing_thread(const Operation& operation) const noexcept;
  /// The group ends for this reason; later calls tell it.
  void poison(const std::string& reason) noexcept;
  /// The same, by an error of what moves the bytes, in its own words. Throws CommError.
  [[noreturn]] void end_by_transport(const Operation& operation, const std::string& words);
  [[nodiscard]] std::unique_lock<SpinLock> lock() const {
    return shared_by_threads_ ? std::unique_lock(lock_) : std::unique_lock<SpinLock>();
  }
  /// The same without a wait: false if another thread holds the lock.
  [[nodiscard]] bool lock_if_free(std::unique_lock<SpinLock>& locked) const {
    if (!shared_by_threads_) return true;
    locked = std::unique_lock(lock_, std::try_to_lock);
    return locked.owns_lock();
  }

  /// What a backend is.
  [[nodiscard]] virtual IntrusivePtr<InFlight> make(Operation&& operation) = 0;
  /// How it takes this operation, whose tensors lie on a device.
  [[nodiscard]] virtual DeviceReach reach_of(const Operation& /*operation*/) const noexcept {
    return DeviceReach::by_pinned_memory;
  }
  /// Which ranks a collective waits for, and what they do instead: "rank 1 has not entered it
  /// (...)"; empty if that cannot be seen. Asked before the ranks agree.
  [[nodiscard]] virtual std::string missing_ranks(const InFlight& work) const = 0;
  /// This rank is done with collectives up to `sequence`.
  virtual void retire(std::uint64_t /*sequence*/) noexcept {}
  /// Keeps a record whose tensors somebody may still read or write: for the life of the process,
  /// unless it is known when nobody does.
  virtual void keep_abandoned(const IntrusivePtr<WorkRecord>& record) noexcept {
    keep_until_exit(record);
  }
  /// The group was poisoned here.
  virtual void spread_failure(const std::string& /*reason*/) noexcept {}
  /// Why the group failed on another rank, where a rank can know; nullptr if it did not.
  [[nodiscard]] virtual const std::string* failure_elsewhere() const noexcept { return nullptr; }
  /// Throws where MPI does not allow this thread to communicate.
  virtual void expect_right_thread() const {}

 private:
  enum class State : std::uint8_t { open, poisoned, closed, finalized };

  [[nodiscard]] IntrusivePtr<InFlight> oldest() const;
  [[nodiscard]] std::string describe_wait(const InFlight& work) const;
  /// Moves everything in flight on but `except`, oldest first: collectives are launched in the same
  /// order everywhere. True if any of it came further.
  bool progress(const InFlight* except = nullptr);
  /// Moves one operation on, and takes it off the list if it is over. True if it came further.
  bool step(InFlight& work);
  [[nodiscard]] Motion advance(InFlight& work);
  [[nodiscard]] Motion transfer(InFlight& work);
  /// f(), which moves the operation on. Whatever it throws ends the group: nobody can say how far
  /// the operation has come, so it must not go on.
  template <class F>
  Motion guarded(const InFlight& work, const F& f);
  /// advance(), while nobody else moves the operation on: it may wait for other ranks, and whoever
  /// waits moves all groups on, also where no lock keeps this one out.
  [[nodiscard]] Motion guarded_advance(InFlight& work);
  [[noreturn]] void end_by(const InFlight& work, const OperationFailure& failure);
  [[noreturn]] void end_by_time_out(const InFlight& work, double waited_s);
  void enlist(InFlight& work) noexcept;
  void delist(InFlight& work) noexcept;
  void abandon_all() noexcept;
  /// The backend is done with collectives older than the oldest that it still has.
  void retire_collectives() noexcept;

  /// Of an operation on a device; none where the backend takes its tensors as they are.
  [[nodiscard]] std::optional<DeviceStaging> stage(Operation& operation);
  /// Holds it back where its device, or an older operation's of its kind, has not come so far.
  void hold(InFlight& work);
  /// Whether it is held no longer.
  [[nodiscard]] bool let_go(InFlight& work);
  [[nodiscard]] int& held_like(const InFlight& work) noexcept {
    return held_[work.operation_.is_message() ? 1 : 0];
  }

  int rank_ = 0;
  int size_ = 1;
  std::string host_;
  std::string name_;
  GroupOptions options_;
  WorkClock clock_;
  EventCount own_event_;  // which nobody notifies
  FlightLog flight_;
  bool shared_by_threads_ = false;
  mutable SpinLock lock_;  // guards what follows, where threads share the group
  bool in_step_ = false;   // guarded_advance() is on the stack
  State state_ = State::open;
  std::string reason_;  // why the state is not open
  std::uint64_t sequence_ = 0;
  std::uint64_t message_sequence_ = 0;
  std::uint64_t agreed_ = 0;  // collectives up to this one have had their rendezvous
  int held_[2] = {};          // collectives, messages
  std::vector<std::unique_ptr<StagingDevice>> staging_devices_;
  InFlight* first_ = nullptr;  // in flight, oldest first; each is owned by this list
  InFlight* last_ = nullptr;
};

}  // namespace lockstep
