#include <lockstep/comm/operation.hpp>

#include <fmt/format.h>

namespace lockstep {
namespace {

using Kind = Operation::Kind;

/// The finaliser of SplitMix64 (Steele, Lea, Flood 2014): every bit of the result depends on every
/// bit of x.
std::uint64_t mix(std::uint64_t x) noexcept {
  x += 0x9e3779b97f4a7c15U;
  x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27U)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31U);
}

/// Elements per rank that must be equal on all ranks.
std::int64_t common_count(const Operation& operation) noexcept {
  switch (operation.kind) {
    case Kind::scatter:  // only the root has the whole
      return operation.input_counts.empty() ? operation.output.numel() : 0;
    case Kind::all_gather:
    case Kind::gather:
      return operation.output_counts.empty() ? operation.input.numel() : 0;
    case Kind::all_to_all:
      return operation.input_counts.empty() ? operation.input.numel() : 0;
    case Kind::barrier:
      return 0;
    default:
      return operation.input.numel();
  }
}

/// True if all ranks' inputs (outputs, where only the root has an input) have the same shape.
bool has_common_shape(const Operation& operation) noexcept {
  return operation.kind != Kind::barrier && operation.kind != Kind::scatter &&
         operation.input_counts.empty() && operation.output_counts.empty();
}

}  // namespace

Block block_of(const std::vector<std::int64_t>& counts, std::int64_t numel, int size,
               int rank) noexcept {
  if (counts.empty()) return {numel / size * rank, numel / size};
  Block block{0, counts[static_cast<std::size_t>(rank)]};
  for (int r = 0; r < rank; ++r) block.begin += counts[static_cast<std::size_t>(r)];
  return block;
}

Tensor elements_of(const Tensor& t, Block block) {
  const auto begin = static_cast<std::size_t>(block.begin) * size_of(t.dtype());
  return Tensor::over(t.storage(), t.offset_bytes() + begin, {block.count}, t.dtype());
}

std::uint64_t fingerprint_of(const Operation& operation, bool shapes) noexcept {
  const Tensor& t = operation.input.defined() ? operation.input : operation.output;
  const std::uint64_t call = static_cast<std::uint64_t>(operation.kind) |
                             static_cast<std::uint64_t>(operation.op) << 8U |
                             static_cast<std::uint64_t>(t.dtype()) << 16U |
                             static_cast<std::uint64_t>(operation.device.type) << 24U |
                             static_cast<std::uint64_t>(!operation.input_counts.empty()) << 31U |
                             static_cast<std::uint64_t>(operation.root + 1) << 32U;
  std::uint64_t mixed = mix(call) ^ static_cast<std::uint64_t>(common_count(operation));
  // The counts of all_to_all_v differ by rank: there the messages' lengths are checked.
  if (operation.kind != Kind::all_to_all) {
    for (const auto* counts : {&operation.input_counts, &operation.output_counts}) {
      for (const auto count : *counts) mixed = mix(mixed) ^ static_cast<std::uint64_t>(count);
    }
  }
  if (shapes && has_common_shape(operation)) {
    for (const auto extent : t.shape()) mixed = mix(mixed) ^ static_cast<std::uint64_t>(extent);
  }
  return mix(mixed);
}

std::string refusal(const std::string& rank_name, const std::string& reason) {
  return fmt::format("{}: this process group is unusable, because {}", rank_name, reason);
}

}  // namespace lockstep
