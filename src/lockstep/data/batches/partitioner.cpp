#include <lockstep/data/batches/partitioner.hpp>

#include <fmt/format.h>

#include <numeric>

#include <lockstep/base/error.hpp>
#include <lockstep/data/batches/mt19937.hpp>

namespace lockstep {

DataPartitioner::DataPartitioner(std::int64_t n, std::span<const double> fractions,
                                 std::uint64_t seed) {
  if (n < 0) throw InputError(fmt::format("DataPartitioner: {} samples cannot be partitioned", n));
  std::size_t end = 0;
  for (const double fraction : fractions) {
    if (!(fraction >= 0.0 && fraction <= 1.0)) {
      throw InputError(fmt::format("DataPartitioner: fraction {} of part {} is not between 0 and 1",
                                   fraction, ends_.size()));
    }
    end += static_cast<std::size_t>(fraction * static_cast<double>(n));
    if (end > static_cast<std::size_t>(n)) {
      throw InputError(fmt::format(
          "DataPartitioner: the fractions up to part {} take {} of {} samples. They must "
          "add up to at most 1.",
          ends_.size(), end, n));
    }
    ends_.push_back(end);
  }
  indices_.resize(static_cast<std::size_t>(n));
  std::iota(indices_.begin(), indices_.end(), std::int64_t{0});
  PythonRandom(seed).shuffle(indices_);
}

std::span<const std::int64_t> DataPartitioner::part(std::size_t i) const {
  if (i >= ends_.size()) {
    throw Error(fmt::format("DataPartitioner: part {} of {} does not exist", i, ends_.size()));
  }
  const std::size_t begin = i == 0 ? 0 : ends_[i - 1];
  return std::span(indices_).subspan(begin, ends_[i] - begin);
}

}  // namespace lockstep
