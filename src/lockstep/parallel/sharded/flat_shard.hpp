#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include <lockstep/base/intrusive_ptr.hpp>
#include <lockstep/comm/process_group.hpp>
#include <lockstep/nn/module.hpp>
#include <lockstep/parallel/sharded/fully_shard_options.hpp>
#include <lockstep/parallel/sharded/shard_layout.hpp>

namespace lockstep {

/// Parameters of a unit, all trained or all frozen, of one dtype, in one flat run of memory that is
/// cut over the ranks of a group. A rank owns the values and gradients of its run. The whole
/// memory, of which the module's parameters are views, exists between start_gather() and free();
/// memory for whole gradients between take_gradients() and the end of their sum.
class FlatShard {
 public:
  /// Takes the parameters' values, the same on all ranks, and frees them. Drops their gradients.
  /// Collective.
  FlatShard(ProcessGroup& group, std::vector<nn::NamedParameter> parameters,
            const FullyShardOptions& options);

  [[nodiscard]] const std::vector<nn::NamedParameter>& parameters() const noexcept {
    return parameters_;
  }
  /// This rank's pieces of the parameters, flat, under their names; leaves with a gradient of their
  /// own. Some may have no elements.
  [[nodiscard]] const std::vector<nn::NamedParameter>& pieces() const noexcept { return pieces_; }
  [[nodiscard]] ShardLayout::Piece piece(std::size_t parameter) const {
    return layout_.piece(parameter, rank_);
  }
  [[nodiscard]] bool is_trained() const noexcept { return is_trained_; }

  /// Bytes of the whole values.
  [[nodiscard]] std::size_t value_bytes() const noexcept {
    return static_cast<std::size_t>(full_values_.numel()) * size_of(full_dtype_);
  }
  [[nodiscard]] bool has_value_memory() const noexcept { return static_cast<bool>(absent_values_); }
  /// Starts to gather the parameters' values, into `memory` unless they have some. Collective.
  void start_gather(ProcessGroup& group, IntrusivePtr<Storage> memory);
  /// Returns when they are there.
  void wait_for_values() { gathering_.wait(); }
  /// Advances the operation; true once the values have arrived.
  [[nodiscard]] bool values_are_in() { return gathering_.test(); }
  /// Takes the parameters' values away. Returns their memory, if there was any.
  IntrusivePtr<Storage> free();

  /// Bytes of the whole gradients.
  [[nodiscard]] std::size_t gradient_bytes() const noexcept;
  /// The parameters' gradients are in `memory` from now on: none yet.
  void take_gradients(IntrusivePtr<Storage> memory);
  [[nodiscard]] bool has_gradient_memory() const noexcept {
    return static_cast<bool>(absent_gradients_);
  }
  /// Multiplies the gradients before they are summed.
  void scale_gradients(double factor) const;
  /// Starts the sum of the gradients over the ranks; a parameter without one counts as zero, and
  /// `used`, f32, one element a parameter, is 0 for it, else 1. Collective.
  void start_reduce(ProcessGroup& group, const Tensor& used);
  [[nodiscard]] bool is_reduced() { return reducing_.test(); }
  /// Returns when this sum is complete, the memory of the whole gradients. Starts the sum over
  /// `replicas` unless they are null; collective over them.
  [[nodiscard]] IntrusivePtr<Storage> end_reduce(ProcessGroup* replicas);
  /// Advances the sum over replicas.
  void poke_replicas() { static_cast<void>(replicating_.test()); }
  /// Returns when that is complete, too. Adds factor x the sum to the pieces' gradients.
  void finish_sum(double factor);
  /// used[p] is 0 for a parameter that no rank's gradient has reached: its piece has a gradient
  /// only if it had one before the sum.
  void forget_unused(const float* used);
  /// Forgets gradients that were not summed. Returns their memory.
  [[nodiscard]] IntrusivePtr<Storage> drop_gradients();

  /// Gives the parameters whole values in memory of their own, in the shard's dtype, and memory for
  /// gradients. This object is then unusable. Collective.
  void release(ProcessGroup& group);

 private:
  [[nodiscard]] Tensor place_in(const Tensor& whole, std::size_t parameter) const;
  [[nodiscard]] IntrusivePtr<Storage> let_go_of_gradients();

  std::vector<nn::NamedParameter> parameters_, pieces_;
  ShardLayout layout_;
  int rank_, ranks_;
  bool is_trained_;
  DType dtype_;           ///< of the shard
  DType full_dtype_;      ///< of the gathered values
  DType gradient_dtype_;  ///< of the whole gradients
  DType reduce_dtype_;
  Tensor values_;     ///< this rank's run
  Tensor to_gather_;  ///< the same in full_dtype_
  Tensor gradients_;  ///< of this rank's run
  Tensor sum_;        ///< of the gradients of this rank's run: gradients_, or memory of its own
  std::vector<char> had_gradient_;  ///< by piece, before the last sum
  Tensor full_values_, full_gradients_;
  /// Holds the gathered memory in place of absent memory; else null.
  IntrusivePtr<Storage> absent_values_, absent_gradients_;
  Work gathering_, reducing_, replicating_;
};

}  // namespace lockstep
