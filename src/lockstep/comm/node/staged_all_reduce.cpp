#include <lockstep/comm/node/staged_all_reduce.hpp>

#include <algorithm>

#include <lockstep/comm/node/memory.hpp>
#include <lockstep/comm/node/shares.hpp>

namespace lockstep {
namespace {

Block piece_from(const Operation& operation, std::int64_t begin) {
  return {begin, std::min(operation.input.numel() - begin,
                          ComputeNode::staging_bytes / element_bytes(operation))};
}

std::byte* own_staging(const ComputeNode& node) {
  return node.address(node.staging(), node.rank());
}

}  // namespace

bool StagedAllReduce::fits(const ComputeNode& node, const Operation& operation) noexcept {
  return operation.kind == Operation::Kind::all_reduce && node.has_staging() &&
         operation.input.device().type == DeviceType::host;
}

Motion StagedAllReduce::move(ComputeNode& node, const Operation& operation, WorkClock& clock) {
  if (node.staging_user() && node.staging_user() != &operation) return Motion::none;
  node.staging_user() = &operation;
  auto motion = Motion::none;
  while (step(node, operation, clock)) motion = Motion::some;
  if (cursor_ < operation.input.numel()) return motion;
  node.staging_user() = nullptr;
  return Motion::over;
}

// Stage 2 k + 1: piece k is in the staging buffers; stage 2 k + 2: its result is there. A rank that
// has copied the result out may stage the next piece: all other ranks have read its staging buffer.
bool StagedAllReduce::step(ComputeNode& node, const Operation& operation, WorkClock& clock) {
  const unsigned stage = stages_.finished();
  if (stage > 0 && !stages_.all_have_finished(node, operation, stage)) return false;
  const WorkClock::Working working(clock, operation.output.bytes());
  const Block piece = piece_from(operation, cursor_);
  if (stage % 2 == 1) {
    reduce_staged(node, operation, piece);
    stages_.finish(node, operation, stage + 1);
    return true;
  }
  const std::int64_t element = element_bytes(operation);
  if (stage > 0) {
    copy_bytes(address_of(operation.output, piece.begin), own_staging(node), piece.count * element);
    cursor_ += piece.count;
  }
  if (cursor_ >= operation.input.numel()) return false;
  const Block next = piece_from(operation, cursor_);
  copy_bytes(own_staging(node), address_of(operation.input, next.begin), next.count * element);
  stages_.finish(node, operation, stage + 1);
  return true;
}

}  // namespace lockstep
