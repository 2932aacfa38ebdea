#pragma once
#include <span>
#include <vector>

#include <lockstep/parallel/bucket.hpp>

namespace lockstep {

/// Holds gradients outside the buckets while a sum is made there, and adds them afterwards.
class HeldGradients {
 public:
  /// Moves the parameters' gradients out of the buckets' memory. They still belong to the
  /// parameters: zero_grad() drops them.
  void move_out(std::span<const Bucket> buckets);
  /// Gives the parameters the buckets' memory again, without a gradient.
  void restore_buckets();
  /// Adds the gradients taken, unless dropped, to those in the buckets.
  void add_back();
  void forget() noexcept;

 private:
  struct Held {
    Variable parameter;
    Tensor in_bucket;  ///< undefined once the parameter has its gradient again
    Tensor gradient;   ///< undefined: dropped
  };
  std::vector<Held> held_;
};

}  // namespace lockstep
