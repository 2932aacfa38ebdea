#pragma once
#include <span>
#include <vector>

#include <lockstep/parallel/bucket.hpp>

namespace lockstep {

/// Gradients that are held outside the buckets while a sum is made there, and added to it
/// afterwards.
class HeldGradients {
 public:
  /// Moves the parameters' gradients out of the buckets' memory. They stay the parameters': their
  /// zero_grad() forgets them.
  void move_out(std::span<const Bucket> buckets);
  /// Parameters have the buckets' memory again, and no gradient.
  void restore_buckets();
  /// Adds what was taken, and not forgotten, to the gradients in the buckets.
  void add_back();
  void forget() noexcept;

 private:
  struct Held {
    Variable parameter;
    Tensor in_bucket;  ///< undefined once the parameter has it again
    Tensor gradient;   ///< undefined: forgotten
  };
  std::vector<Held> held_;
};

}  // namespace lockstep
