#pragma once
#include <span>
#include <utility>
#include <vector>

#include <lockstep/parallel/bucket.hpp>

namespace lockstep {

/// Gradients that are kept aside while a sum over shards is made in their memory, and added to it
/// afterwards.
class HeldGradients {
 public:
  /// Copies what the parameters have, and forgets it there. Nothing, if they have none.
  void take(std::span<const Bucket> buckets);
  /// Adds it to what they have now.
  void give_back();

 private:
  std::vector<std::pair<Variable, Tensor>> held_;
};

}  // namespace lockstep
