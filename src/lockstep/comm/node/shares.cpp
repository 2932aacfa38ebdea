#include <lockstep/comm/node/shares.hpp>

#include <algorithm>

#include <lockstep/comm/node/memory.hpp>
#include <lockstep/comm/node/reduce_ranks.hpp>

namespace lockstep {
namespace {

// Bytes of a share that are reduced before other operations are polled: about 0.1 ms.
constexpr std::int64_t turn_bytes = 1 << 20;

/// Every output = the reduction of `count` elements of every rank, at `begin` bytes from the
/// addresses that input_of and output_of return.
template <class In, class Out>
void reduce_at(ComputeNode& node, const Operation& operation, std::int64_t begin,
               std::int64_t count, const In& input_of, const Out& output_of) {
  const auto outputs = node.targets();
  for (int r = 0; r < node.size(); ++r) {
    outputs[static_cast<std::size_t>(r)] = node.address(output_of(r), r) + begin;
  }
  const auto inputs =
      on_every_rank(node, [&](int r) { return node.address(input_of(r), r) + begin; });
  reduce_ranks(operation.op, operation.input.dtype(), inputs, count, outputs);
}

}  // namespace

Block share_of(std::int64_t numel, std::int64_t element, int size, int rank) noexcept {
  const std::int64_t line = 64 / element, lines = (numel + line - 1) / line;
  const auto begin = [&](int r) { return std::min(numel, lines * r / size * line); };
  return {begin(rank), begin(rank + 1) - begin(rank)};
}

std::int64_t reduce_share(ComputeNode& node, const Operation& operation, std::int64_t cursor) {
  const std::int64_t element = element_bytes(operation);
  const Block share = share_of(operation.input.numel(), element, node.size(), node.rank());
  const std::int64_t count = std::min(share.count - cursor, turn_bytes / element);
  reduce_at(
      node, operation, (share.begin + cursor) * element, count,
      [&](int r) { return slot_of(node, operation, r).input; },
      [&](int r) { return slot_of(node, operation, r).output; });
  return cursor + count < share.count ? cursor + count : -1;
}

void reduce_staged(ComputeNode& node, const Operation& operation, Block piece) {
  const std::int64_t element = element_bytes(operation);
  const Block share = share_of(piece.count, element, node.size(), node.rank());
  const auto staging = [&](int) { return node.staging(); };
  reduce_at(node, operation, share.begin * element, share.count, staging, staging);
}

}  // namespace lockstep
