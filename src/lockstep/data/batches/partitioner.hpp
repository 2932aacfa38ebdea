#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace lockstep {

/// Shuffles samples 0 to n-1 once and cuts them into parts of the given fractions. This is the
/// DataPartitioner of PyTorch's tutorial "Writing Distributed Applications with PyTorch", with the
/// same lists (Python's random.Random(seed), parts of int(fraction * n)). Every rank can compute
/// every part.
class DataPartitioner {
 public:
  /// Throws InputError if a fraction is negative or not a number, or if the parts exceed n samples.
  DataPartitioner(std::int64_t n, std::span<const double> fractions, std::uint64_t seed = 1234);

  [[nodiscard]] std::size_t size() const noexcept { return ends_.size(); }
  /// Sample numbers of part `i`; valid as long as the partitioner. Throws Error if there is no such
  /// part.
  [[nodiscard]] std::span<const std::int64_t> part(std::size_t i) const;

 private:
  std::vector<std::int64_t> indices_;
  std::vector<std::size_t> ends_;
};

}  // namespace lockstep
