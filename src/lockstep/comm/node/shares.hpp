#pragma once
#include <lockstep/comm/node/node.hpp>

namespace lockstep {

/// The part of `numel` elements of `element` bytes that falls to one of `size` ranks: whole cache
/// lines, so that no two write to the same one.
[[nodiscard]] Block share_of(std::int64_t numel, std::int64_t element, int size, int rank) noexcept;

/// A turn of this rank's share of the reduction of all posted inputs into all outputs, which lie in
/// shared buffers. `cursor` is the element of the share to go on from; returns the next, or -1 when
/// the share is done.
[[nodiscard]] std::int64_t reduce_share(ComputeNode& node, const Operation& operation,
                                        std::int64_t cursor);

/// This rank's share of a piece that lies in every rank's staging buffer, into all of them.
void reduce_staged(ComputeNode& node, const Operation& operation, Block piece);

}  // namespace lockstep
