#include <lockstep/parallel/context/sequence_slice.hpp>

#include <algorithm>
#include <vector>

#include <lockstep/base/error.hpp>

namespace lockstep {
namespace {

SequenceRun chunk_of(std::int64_t length, std::int64_t chunk, std::int64_t chunks) {
  const std::int64_t each = length / chunks, longer = length % chunks;
  const auto begin = [&](std::int64_t c) { return c * each + std::min(c, longer); };
  return {begin(chunk), begin(chunk + 1)};
}

}  // namespace

std::array<SequenceRun, 2> sequence_runs(std::int64_t length, int rank, int ranks,
                                         SequenceOrder order) {
  if (order == SequenceOrder::contiguous) {
    const SequenceRun run = chunk_of(length, rank, ranks);
    return {run, {run.end, run.end}};
  }
  const std::int64_t chunks = std::int64_t{2} * ranks;
  return {chunk_of(length, rank, chunks), chunk_of(length, chunks - 1 - rank, chunks)};
}

Tensor sequence_slice(const Tensor& x, int rank, int ranks, SequenceOrder order) {
  if (x.dims() < 2) {
    throw ShapeError("sequence_slice cuts dimension 1 of [B, L, ...], not " + describe(x) + ".");
  }
  const auto runs = sequence_runs(x.size(1), rank, ranks, order);
  std::vector<std::int64_t> extents(x.shape().begin(), x.shape().end());
  extents[1] = runs[0].size() + runs[1].size();
  Tensor slice = Tensor::empty(Shape(extents), x.dtype(), x.device());
  for (std::int64_t b = 0; b < x.size(0); ++b) {
    std::int64_t at = 0;
    for (const SequenceRun& run : runs) {
      slice[b].slice(at, at + run.size()).copy_from(x[b].slice(run.begin, run.end));
      at += run.size();
    }
  }
  return slice;
}

}  // namespace lockstep
