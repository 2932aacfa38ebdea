#pragma once
#include <span>
#include <string>

#include <lockstep/comm/operation.hpp>

// The checks of a call's arguments. Each function throws ShapeError, which names the call and the
// argument at fault. Private to the layer.

namespace lockstep {

/// The name of the call and the calling rank, for messages.
struct Call {
  const char* name;
  int rank;
  int size;
};

/// A tensor and its name in messages: "its input".
struct Argument {
  const char* name;
  const Tensor& tensor;
};

[[noreturn]] void refuse_undefined(const Call& call, const Argument& argument);
inline void expect_defined(const Call& call, const Argument& argument) {
  if (!argument.tensor.defined()) refuse_undefined(call, argument);
}
/// The device of the call's tensors; the host if it has none. Throws unless that is one device.
[[nodiscard]] Device common_device(const Operation& operation);
void expect_root(const Call& call, int root);
void expect_peer(const Call& call, int peer, int tag);
void expect_reducible(const Call& call, ReduceOp op, const Tensor& t);
/// Same shape and dtype.
void expect_equal(const Call& call, const Tensor& input, const Tensor& output);
/// Not the same memory.
void expect_apart(const Call& call, const Tensor& input, const Tensor& output);
/// Not the same memory, or in place: `part` is just that of `whole` from element `begin` on.
void expect_in_place_or_apart(const Call& call, const Tensor& part, const Tensor& whole,
                              std::int64_t begin);
/// `all` is [size, ...one.shape()], of one's dtype; `one` is row `rank` of it, or does not overlap
/// it.
void expect_rows(const Call& call, const Tensor& one, const Tensor& all, int rank);
/// The leading dimension of `t` is the number of ranks.
void expect_row_a_rank(const Call& call, const Argument& t);

/// `counts` has one entry a rank, none negative.
void expect_counts(const Call& call, std::span<const std::int64_t> counts);
/// The leading dimension of `t` is the sum of `counts`.
void expect_total(const Call& call, const Argument& t, std::span<const std::int64_t> counts);
/// Checks that dtype and shape agree, except for the leading dimension.
void expect_same_rows(const Call& call, const Tensor& a, const Tensor& b);
/// `part` holds this rank's share of the rows that `counts` define, and `whole`, on ranks that have
/// it, holds all of them; `part` is this rank's rows of `whole`, or does not overlap it. Returns
/// the counts in elements.
[[nodiscard]] std::vector<std::int64_t> expect_share(const Call& call, const Argument& part,
                                                     const Argument& whole,
                                                     std::span<const std::int64_t> counts);

/// Counts of rows as counts of elements.
[[nodiscard]] std::vector<std::int64_t> element_counts(const Tensor& t,
                                                       std::span<const std::int64_t> counts);

}  // namespace lockstep
