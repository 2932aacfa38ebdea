#pragma once
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include <lockstep/comm/process_group.hpp>
#include <lockstep/nn/module.hpp>
#include <lockstep/parallel/sharded/flat_shard.hpp>
#include <lockstep/parallel/sharded/fully_shard_options.hpp>

namespace lockstep {

/// The units of a model: parts whose parameters are gathered and freed together. A unit is gathered
/// when forward or backward enters its module, and the next one of the order of execution at the
/// same time, so that its messages travel while this one computes.
///
/// Every rank starts the same gathers in the same order: in forward the order in which modules are
/// called, in backward its reverse, over all units that forward has entered, whether or not a loss
/// depends on them on this rank. Calls are seen by a ForwardHook. One thread at a time.
class ShardedUnits : public std::enable_shared_from_this<ShardedUnits> {
 public:
  struct Unit {
    std::string name;  ///< of the module; "" of the root
    std::vector<FlatShard> shards;
    bool is_trained = false;  ///< some parameter is,
    bool is_frozen = false;   ///< or some is not
    // Of the present forward and backward:
    bool is_there = false;  ///< gathered, or on the way
    bool is_fresh = false;  ///< gathered in this forward
    bool in_graph = false;  ///< entered by a forward that recorded, since the last pass
    std::size_t place = 0;  ///< in order_, or in backward_order()
  };
  static constexpr std::size_t root = 0;

  /// See FullyShardOptions. Throws InputError for a pattern that fits no module. Collective.
  ShardedUnits(nn::Module& model, std::shared_ptr<ProcessGroup> group,
               const FullyShardOptions& options);

  [[nodiscard]] std::vector<Unit>& units() noexcept { return units_; }

  /// Is called when backward enters a unit, before its gradients are computed.
  void on_backward_enters(std::function<void(std::size_t unit)> call) {
    backward_enters_ = std::move(call);
  }

  // Forward of the model, between these two or until fails(). `records`: backward may follow.
  void forward_begins(bool records);
  void forward_ends();
  // A backward pass, likewise.
  void backward_begins();
  /// Frees all.
  void backward_ends();
  void fails() noexcept;

  /// Units that backward may enter, in the order in which it does, without the root.
  [[nodiscard]] const std::vector<std::size_t>& backward_order() const noexcept {
    return backward_order_;
  }
  /// Backward enters a unit: returns when its values are there.
  void enter_backward(std::size_t unit);
  /// Backward is at a unit, or past it, and on this rank may not have entered it: starts the
  /// gathers that another rank may wait for in it.
  void join_gathers_of(std::size_t unit);
  /// Backward is through with all trained parameters of a unit.
  void leave_backward(std::size_t unit);

  /// Gathers all units, or frees all.
  void gather_all();
  void free_all();
  /// Gives the module its parameters back: FlatShard::release.
  void release();

  // For the hook.
  void before(const nn::Module& module);
  void after(const nn::Module& module, Variable& y);
  [[nodiscard]] bool sees_parts_of(const nn::Module& module) const {
    return above_.contains(&module);
  }

 private:
  enum class Phase : std::uint8_t { none, forward, backward };
  void gather(std::size_t unit);
  void wait_for(std::size_t unit);
  void free(std::size_t unit);
  [[nodiscard]] IntrusivePtr<Storage> memory_for(const FlatShard& shard, std::size_t unit);
  void enter_forward(std::size_t unit);
  void gather_up_to(std::size_t end);
  void set_order();
  void move_on();

  std::shared_ptr<ProcessGroup> group_;
  bool reshards_;
  std::vector<Unit> units_;
  std::size_t most_bytes_ = 0;                ///< of a run's whole values, outside of the root unit
  std::vector<IntrusivePtr<Storage>> spare_;  ///< memory of values that are not there
  std::unordered_map<const nn::Module*, std::size_t> unit_of_;  ///< with all modules below it
  std::unordered_map<const nn::Module*, std::size_t> is_unit_;
  std::unordered_set<const nn::Module*> above_;  ///< modules with units below them
  std::function<void(std::size_t)> backward_enters_;

  Phase phase_ = Phase::none;
  bool records_ = false;
  bool pass_is_over_ = false;         ///< the next forward begins a new graph
  std::vector<std::size_t> order_;    ///< units in the order of the last forward
  std::vector<std::size_t> entered_;  ///< in the present one
  std::vector<std::size_t> backward_order_;
  std::size_t gathered_ = 0;         ///< of backward_order_
  std::vector<std::size_t> moving_;  ///< units whose values are on the way
  bool has_warned_ = false;
};

/// While it lives, units see the calls of modules on this thread. Several may live at a time, of
/// different models.
class UnitWatch {
 public:
  explicit UnitWatch(ShardedUnits& units);
  ~UnitWatch();
  UnitWatch(const UnitWatch&) = delete;
  UnitWatch& operator=(const UnitWatch&) = delete;

 private:
  ShardedUnits& units_;
};

}  // namespace lockstep
