#pragma once
#include <chrono>
#include <cstdint>
#include <functional>
#include <set>
#include <vector>

#include <lockstep/base/clock.hpp>
#include <lockstep/rpc/answers.hpp>
#include <lockstep/rpc/availability.hpp>
#include <lockstep/rpc/references.hpp>
#include <lockstep/rpc/transport.hpp>
#include <lockstep/rpc/work_watch.hpp>
#include <lockstep/rpc/worker_table.hpp>

namespace lockstep::rpc {

/// Finds out, with the other ranks, that no call is on its way anywhere: by sums of what was sent
/// and of what is over, which must be equal twice in a row (Mattern's four counters: Algorithms for
/// distributed termination detection, 1987).
class Termination {
 public:
  /// `shutdown_timeout`: Options::shutdown_timeout.
  Termination(const WorkerTable& workers, Transport& transport, const References& references,
              const Answers& answers, const Availability& availability,
              std::chrono::milliseconds shutdown_timeout);

  /// Waits for that. Collective. `move_on` makes progress on calls without blocking, and returns
  /// true if it did something; `naps`: threads without work may sleep. Throws TimeoutError when no
  /// rank has worked for that time, CommError if no call is possible any more.
  void await(const std::function<bool()>& move_on, bool naps);
  /// Another rank asks whether this one works, or tells.
  void take(int from, const Head& head);

 private:
  [[nodiscard]] bool is_reached(std::vector<std::int64_t>& before, Clock::time_point began,
                                const std::function<bool()>& move_on, bool naps);
  /// Throws TimeoutError if something is on its way by these sums, but no rank works.
  void expect_work(const std::vector<std::int64_t>& total, Clock::time_point began) const;
  [[nodiscard]] WorkDone work_done() const;
  [[nodiscard]] bool is_overdue() const;
  void ask_for_progress();
  void send_notice(Kind kind, int to) noexcept;
  /// Says which workers' processes are stopped, unless it is known.
  void name_stopped(std::set<int>& known) const;

  const WorkerTable& workers_;
  Transport& transport_;
  const References& references_;
  const Answers& answers_;
  const Availability& availability_;
  const Clock::duration shutdown_timeout_;
  bool asks_ = true;  // the others about their progress
  WorkWatch watch_;
};

}  // namespace lockstep::rpc
