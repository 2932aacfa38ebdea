#include <lockstep/data/batches/epoch_order.hpp>

#include <lockstep/data/batches/permutation.hpp>
#include <lockstep/data/batches/weighted_draws.hpp>

namespace lockstep {

std::unique_ptr<EpochOrder> make_order(const Datasets& data, std::uint64_t seed,
                                       const Shuffle& shuffle) {
  if (data.sample_weights.empty())
    return std::make_unique<Permutation>(data.train->size(), seed, shuffle);
  return std::make_unique<WeightedDraws>(data.sample_weights, data.train->size(), seed);
}

}  // namespace lockstep
