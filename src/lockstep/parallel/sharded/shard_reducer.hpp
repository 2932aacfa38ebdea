#pragma once
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include <lockstep/autograd/pass_observer.hpp>
#include <lockstep/comm/process_group.hpp>
#include <lockstep/parallel/gradient_sum_stats.hpp>
#include <lockstep/parallel/sharded/sharded_units.hpp>

namespace lockstep {

/// Sums the gradients of units over the ranks during backward, each rank getting those of its own
/// runs. A unit's sum is started when its last gradient is final and those of all units before it
/// in the order of backward have been started, so every rank makes the same calls. Two units' whole
/// gradients, besides the root's, are in shared buffers of the group: while one is summed, the next
/// one's backward fills the other.
///
/// With replicas, this rank's run of a unit's sum is then summed over them. That begins when the
/// next unit's sum does, not when a rank sees its own complete, so every rank makes the same calls
/// in the same order; and its end is not waited for within backward. One thread at a time.
class ShardReducer {
 public:
  /// `observer` is notified of passes that reach the parameters. `replicas` may be null.
  /// Collective.
  ShardReducer(std::shared_ptr<ShardedUnits> units, std::shared_ptr<ProcessGroup> group,
               std::shared_ptr<ProcessGroup> replicas, PassObserver* observer);
  ShardReducer(const ShardReducer&) = delete;
  ShardReducer& operator=(const ShardReducer&) = delete;

  /// A backward pass begins, all of whose leaves are known; after ShardedUnits::backward_begins().
  /// Without `sums` its gradients stay whole, on this rank, until those of a later pass are added
  /// and summed. Sums are multiplied by `factor`.
  void begin(bool sums, double factor);
  /// Backward enters a unit.
  void enter(std::size_t unit);
  /// The pass is complete: returns when all sums are. Collective if it sums.
  void finish();
  /// The pass has failed: drops its gradients.
  void give_up() noexcept;

  /// Multiplies the gradients that are kept whole.
  void scale_kept(double factor);
  /// Drops them.
  void drop_kept();

  /// Names of parameters whose gradients no rank's pass has reached since construction.
  [[nodiscard]] std::vector<std::string> never_used() const;
  [[nodiscard]] const GradientSumStats& stats() const noexcept { return stats_; }

 private:
  /// Whole gradients of one trained run of parameters.
  struct Place {
    std::size_t unit;
    FlatShard* shard;
    std::int64_t first_note;  ///< of its parameters in notes_
    std::size_t buffer;       ///< see buffers_
  };
  struct Buffer {
    IntrusivePtr<Storage> memory;
    bool is_of_root;
    bool is_free = true;
  };
  static constexpr std::size_t buffers_of_units = 2;

  void gradient_is_final(std::size_t place);
  void launch_ready();
  void launch(std::size_t place);
  void take_memory(Place& place);
  void complete_oldest();
  void move_on();
  void return_memory(Place& place);
  [[nodiscard]] ShardedUnits::Unit& unit_of(const Place& place) const {
    return units_->units()[place.unit];
  }

  static constexpr std::size_t own_memory = static_cast<std::size_t>(-1);

  std::shared_ptr<ShardedUnits> units_;
  std::shared_ptr<ProcessGroup> group_, replicas_;
  std::vector<Place> places_;
  std::vector<std::vector<std::size_t>> places_of_unit_;
  std::vector<Buffer> buffers_;           ///< shared by all units, and one for each run of the root
  std::vector<std::size_t> pending_;      ///< per unit: gradients that are not final yet
  std::vector<std::size_t> order_;        ///< units of the present pass, in the order of their sums
  std::size_t launched_ = 0;              ///< of order_
  std::vector<std::size_t> in_flight_;    ///< places, in the order of launching
  std::vector<std::size_t> replicating_;  ///< those whose sums over replicas are under way
  Tensor notes_;                          ///< f32: the number of ranks that used a parameter
  std::vector<char> used_;                ///< by note: once, by some rank
  bool is_running_ = false, sums_ = false;
  double factor_ = 1.0;
  GradientSumStats stats_;
  std::vector<GradHook> hooks_;  // last: they refer to the other members
};

}  // namespace lockstep
