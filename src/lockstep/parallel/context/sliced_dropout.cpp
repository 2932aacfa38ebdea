#include <lockstep/parallel/context/sliced_dropout.hpp>

#include <algorithm>
#include <cstring>

#include <lockstep/autograd/functional/arithmetic.hpp>
#include <lockstep/comm/call_label.hpp>
#include <lockstep/tensor/kernels/elementwise/copy.hpp>
#include <lockstep/tensor/kernels/elementwise/dropout_run.hpp>

namespace lockstep {

SlicePositions slice_positions(const Tensor& lengths, int rank, SequenceOrder order) {
  const auto* const length_of = static_cast<const std::int64_t*>(lengths.data());
  const auto size = static_cast<int>(lengths.numel());
  const bool zigzag = order == SequenceOrder::zigzag;
  SlicePositions result;
  // Chunks in the order of the sequence.
  for (int chunk = 0; chunk < (zigzag ? 2 * size : size); ++chunk) {
    const bool second = chunk >= size;
    const int owner = second ? 2 * size - 1 - chunk : chunk;
    const std::int64_t all = length_of[owner], first = zigzag ? (all + 1) / 2 : all;
    const std::int64_t begin = result.length, count = second ? all - first : first;
    result.length += count;
    if (owner == rank) result.runs[second ? 1 : 0] = {begin, result.length};
  }
  return result;
}

namespace {

/// Facts that the ranks exchange.
struct Draw {
  std::int64_t tokens = 0, first_sample = 0;
  std::uint64_t seed = 0;
  std::uint32_t stream = 0, step = 0;
};

}  // namespace

Variable SlicedDropout::dropout(const Variable& x, double p, const RandomKey& key) const {
  if (x.shape().dims() < 3 || sequence_.expired()) return Partition::dropout(x, p, key);
  const CallLabel label("dropout of slices");
  constexpr std::int64_t numbers = sizeof(Draw) / sizeof(std::int64_t);
  const int size = group_->size();
  const Draw mine{x.shape()[1], key.first_sample, key.seed, key.stream, key.step};
  const Tensor here = Tensor::empty({numbers}, DType::i64);
  const Tensor all = Tensor::empty({size, numbers}, DType::i64);
  std::memcpy(here.data(), &mine, sizeof mine);
  group_->all_gather(here, all).wait();
  const Tensor lengths = Tensor::empty({size}, DType::i64);
  for (int r = 0; r < size; ++r) {
    std::memcpy(lengths[r].data(), all[r].data(), sizeof(std::int64_t));
  }
  Draw first;
  std::memcpy(&first, all.data(), sizeof first);
  const RandomKey key_of_all{first.seed, first.stream, first.step, first.first_sample,
                             key.step_memory};

  const std::int64_t rows = x.shape()[0], tokens = x.shape()[1];
  const std::int64_t width = x.data().numel() / std::max<std::int64_t>(rows * tokens, 1);
  const DType dtype = is_half(x.data().dtype()) ? DType::f32 : x.data().dtype();
  const Tensor scale = Tensor::empty({rows, tokens * width}, dtype, x.data().device());
  std::int64_t at = 0;
  for (const SequenceRun& run : slice_positions(lengths, group_->rank(), order_).runs) {
    if (run.size() == 0) continue;
    const Tensor part = Tensor::empty({rows, run.size() * width}, dtype, scale.device());
    dropout_scale_run(p, key_of_all, run.begin * width, part);
    narrow_assign(part, 1, at * width, false, scale);
    at += run.size();
  }
  const Variable y = x * Variable(scale.reshape(x.shape()));
  return dtype == x.data().dtype() ? y : to(y, x.data().dtype());
}

}  // namespace lockstep
