#pragma once
#include <span>
#include <vector>

#include <lockstep/parallel/bucket.hpp>

namespace lockstep {

/// Gradients that are kept aside while a sum is made in their memory, and added to it afterwards.
class HeldGradients {
 public:
  /// What the parameters have moves out of the buckets' memory. It stays theirs: zero_grad()
  /// forgets it. Nothing, if they have none.
  void take(std::span<const Bucket> buckets);
  /// Parameters have the buckets' memory again, and no gradient.
  void leave_buckets();
  /// Adds what was taken, and not forgotten, to what they have now.
  void give_back();
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
