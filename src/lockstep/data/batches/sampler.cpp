#include <lockstep/data/batches/sampler.hpp>

#include <string>

#include <lockstep/base/error.hpp>

namespace lockstep {
namespace {

std::int64_t samples_a_rank(std::int64_t n, std::int64_t world, bool drop_last) {
  return drop_last ? n / world : (n + world - 1) / world;
}

int checked_rank(int rank, int world) {
  if (world < 1 || rank < 0 || rank >= world) {
    throw Error("DistributedSampler: rank " + std::to_string(rank) + " of " +
                std::to_string(world) + " does not exist");
  }
  return rank;
}

}  // namespace

DistributedSampler::DistributedSampler(std::int64_t n, int world, int rank,
                                       const SamplerOptions& options)
    : n_(n),
      world_(world),
      rank_(checked_rank(rank, world)),
      options_(options),
      num_samples_(samples_a_rank(n, world, options.drop_last)),
      order_(n, 0, {.on = options.shuffle}),
      mine_(static_cast<std::size_t>(num_samples_)) {
  set_epoch(0);
}

void DistributedSampler::set_epoch(std::int64_t epoch) {
  // As in PyTorch, the order depends on the sum of seed and epoch.
  order_.set_epoch(static_cast<std::int64_t>(options_.seed) + epoch);
  const auto order = order_.indices();
  for (std::int64_t j = 0; j < num_samples_; ++j) {
    mine_[static_cast<std::size_t>(j)] = order[static_cast<std::size_t>((j * world_ + rank_) % n_)];
  }
}

}  // namespace lockstep
