#pragma once
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <lockstep/parallel/comm_hook.hpp>
#include <lockstep/parallel/gradient_sum_stats.hpp>
#include <lockstep/tensor/stream.hpp>

namespace lockstep {

/// Sums gradients over the ranks of a group during backward. The hook launches a bucket when its
/// last gradient is final and all buckets before it have been launched, so every rank makes the
/// same calls. In the first sum the order is that of the indices; later it is the order in which
/// rank 0's buckets became ready in the first. The reducer follows the parameters by hooks of its
/// own, between begin() and finish(). One thread at a time.
class Reducer {
 public:
  /// `observer` is notified of passes that reach the parameters. Collective over the group.
  Reducer(std::shared_ptr<ProcessGroup> group, std::vector<Bucket> buckets,
          std::shared_ptr<CommHook> hook, PassObserver* observer = nullptr);
  Reducer(const Reducer&) = delete;
  Reducer& operator=(const Reducer&) = delete;

  /// A backward pass begins, which adds to the existing gradients. A bucket's final contents are
  /// multiplied by `factor` before it is launched; with `at_end`, none is launched before finish().
  void begin(double factor = 1.0, bool at_end = false);
  /// Whether this is between begin() and finish().
  [[nodiscard]] bool is_running() const noexcept { return listening_; }
  /// Variable::awaits_gradient() is known: the sum does not wait for gradients of other parameters.
  void reached_parameters_are_known();
  /// Backward is complete. Returns when every sum is complete. A rank that did not reach a
  /// parameter adds zero; a parameter that no rank reached has no gradient. Collective.
  void finish();
  /// Backward has failed: nothing more is sent for it.
  void give_up() noexcept { listening_ = false; }

  /// From now on `question` is asked when the last bucket of a sum is launched, and that bucket
  /// carries the ranks' answers. It allocates nothing and must not communicate.
  void ask_along(std::function<bool()> question) { question_ = std::move(question); }
  /// Whether any rank answered yes at the last finish(): the same on all. False if gradients were
  /// not summed over all ranks (CommHook::sums_over_all). For gradients of several ranks on
  /// devices this refers to the finish() before: the host does not wait for the last one.
  [[nodiscard]] bool any_said_yes() const noexcept { return any_said_yes_; }

  /// Drops the gradients; their memory stays in the buckets.
  void zero_grad() const;
  /// Multiplies the existing gradients.
  void scale_held(double factor) const;

  /// Parameters that no rank has reached, since construction, in sums over all ranks.
  [[nodiscard]] std::vector<Variable> never_used() const;
  [[nodiscard]] const std::vector<Bucket>& buckets() const noexcept { return buckets_; }
  [[nodiscard]] CommHook& comm_hook() const noexcept { return *hook_; }
  [[nodiscard]] const GradientSumStats& stats() const noexcept { return stats_; }

 private:
  void gradient_is_final(std::size_t bucket);
  void launch_ready_buckets();
  void run_all_rounds();
  void agree_on_order();
  /// Sets a parameter without a gradient on this rank to zero, and unused. Returns whether there is
  /// one.
  static bool zero_missing_gradients(const Bucket& bucket);
  void read_notes(std::size_t index);
  /// For buckets on a device: reads the answers of the previous sum, and sends for this one's.
  void exchange_answers();

  std::shared_ptr<ProcessGroup> group_;
  std::vector<Bucket> buckets_;
  std::shared_ptr<CommHook> hook_;
  std::vector<std::vector<char>> used_;  ///< per bucket, by parameter: reached once by some rank
  std::vector<std::size_t> pending_;     ///< per bucket: number of gradients that are not final yet
  std::vector<Work> works_;              ///< per launched bucket
  std::vector<std::size_t> order_;       ///< order of launching buckets
  std::vector<std::size_t> readiness_;   ///< order in which they became ready in the first sum
  bool is_first_sum_ = true;
  std::function<bool()> question_;  ///< empty: none
  bool any_said_yes_ = false;
  std::vector<char> misses_any_;  ///< per bucket: this rank lacks a gradient of a parameter
  Tensor answers_;                ///< of the previous sum, in transfer from a device
  DeviceEvent answers_arrived_;
  std::size_t launched_ = 0;   ///< number of launched buckets: always the first ones of the order
  std::size_t completed_ = 0;  ///< number of these, from the first on, known to be complete
  bool listening_ = false;
  bool launches_at_end_ = false;
  double factor_ = 1.0;
  GradientSumStats stats_;
  std::vector<GradHook> hooks_;  // last: they refer to the other members
};

}  // namespace lockstep
