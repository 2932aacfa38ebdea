#pragma once
#include <span>
#include <vector>

#include <lockstep/autograd/backward.hpp>
#include <lockstep/parallel/bucket.hpp>

namespace lockstep {

/// One shard's gradients of the parameters of some buckets, apart from other shards'.
class ShardGradients final : public GradSink {
 public:
  /// memory[i] is like buckets[i].gradients, with zeros; or those themselves.
  ShardGradients(std::span<const Bucket> buckets, std::vector<Tensor> memory);

  [[nodiscard]] bool takes(const Variable& leaf) const override { return find(leaf) != nullptr; }
  [[nodiscard]] GradTarget target(const Variable& leaf) override;

  void forget() noexcept;
  /// Multiplies those that there are.
  void scale(double factor) const;
  /// Of each bucket. What there is no gradient of counts in them as zero, and as not used; nothing
  /// is said yes to.
  [[nodiscard]] const std::vector<Tensor>& complete();
  /// To the variables, where the memory is the buckets'.
  void give_to_variables() const;

 private:
  struct Place {
    Variable variable;
    Tensor gradient, use;  ///< in the bucket's memory
    bool present = false;
  };
  [[nodiscard]] const Place* find(const Variable& leaf) const;

  std::vector<Place> places_;  ///< by address of the variable's record
  std::vector<Tensor> yes_;    ///< of each bucket: said with the rank's last shard only
  std::vector<Tensor> memory_;
};

}  // namespace lockstep
