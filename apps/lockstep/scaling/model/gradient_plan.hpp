#pragma once
// How one rank of a training sends its gradients.
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace lockstep::scaling {

/// A rehearsed backward pass. Fractions of its duration.
struct GradientPlan {
  struct Message {
    double ready = 1;  ///< when it is launched; 1 for rounds after the first
    double bytes = 0;
  };
  std::vector<std::vector<Message>> rounds;  ///< messages in the order of launching
  /// The hook's own work, such as rounding and products: within backward, and after it.
  double hook_within = 0, hook_after = 0;
};

/// A way to train otherwise.
struct Variant {
  std::string name;                   ///< "" for the deck as it is
  std::vector<std::string> settings;  ///< of --set: the change in the deck
  double batch = 1, parts = 1;        ///< times as many samples, and parts of a batch
  double bandwidth = 1;               ///< between nodes
};

/// The real reducer, buckets and hook of one of so many ranks with so many samples, without the
/// others (FakeGroup). Throws InputError for decks whose communication is not modelled.
using Rehearse = std::function<GradientPlan(const Variant&, int ranks, std::int64_t samples)>;

}  // namespace lockstep::scaling
