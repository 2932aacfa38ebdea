#pragma once
#include <cstdint>
#include <string>

#include <lockstep/comm/process_group.hpp>

namespace lockstep {

/// One collective call, as every backend sees it. It keeps the tensors alive.
struct Operation {
  enum class Kind : std::uint8_t { all_reduce, broadcast, all_gather, barrier };

  Kind kind = Kind::barrier;
  ReduceOp op = ReduceOp::sum;  ///< all_reduce only
  int root = 0;                 ///< broadcast only
  Tensor input;                 ///< all_gather only: the others work in place
  Tensor output;
  std::uint64_t sequence = 0;  ///< counts this group's operations from 1; the same on every rank
};

// Each checks the arguments of its call before anything is sent and throws ShapeError naming what
// does not fit. Every rank passes equal shapes and dtypes, so every rank throws.
[[nodiscard]] Operation all_reduce_operation(const Tensor& t, ReduceOp op);
[[nodiscard]] Operation broadcast_operation(const Tensor& t, int root, int size);
[[nodiscard]] Operation all_gather_operation(const Tensor& input, const Tensor& output, int size);

/// True if the operations of two ranks may meet: same call, dtype, count, reduction and root.
[[nodiscard]] bool same_call(const Operation& a, const Operation& b) noexcept;

[[nodiscard]] const char* name_of(ReduceOp op) noexcept;

/// "all_reduce #17 of f32[21840]", for messages.
[[nodiscard]] std::string describe(const Operation& operation);
/// The same with reduction and root: "all_reduce(sum) #17 of f32[21840]".
[[nodiscard]] std::string describe_fully(const Operation& operation);

/// What a call on a group that has failed or was closed says. `speaker` is "rank 1 of 4 (node12)".
[[nodiscard]] std::string refusal(const std::string& speaker, const std::string& reason);

}  // namespace lockstep
