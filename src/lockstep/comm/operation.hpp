#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <lockstep/comm/process_group.hpp>

namespace lockstep {

/// One call, as every backend sees it. It keeps the tensors alive.
struct Operation {
  enum class Kind : std::uint8_t {
    all_reduce,
    reduce,
    broadcast,
    all_gather,
    gather,
    scatter,
    reduce_scatter,
    all_to_all,
    barrier,
    send,
    receive
  };

  Kind kind = Kind::barrier;
  ReduceOp op = ReduceOp::sum;  ///< of reductions
  int root = 0;                 ///< of rooted collectives; of messages: the peer, or any_source
  int tag = 0;                  ///< of messages
  bool ends_group = false;      ///< a receive whose message is why the group ends (Revocation)
  Device device;                ///< that the caller's tensors lie on
  Tensor input;                 ///< this rank's input; undefined where it has none
  Tensor output;  ///< what it gets; the same memory as input for calls in place; not defined for a
                  ///< message of any length
  /// Elements of input for, and of output from, each rank, one after the other. Empty: equal
  /// shares.
  std::vector<std::int64_t> input_counts, output_counts;
  std::uint64_t sequence = 0;     ///< counts this group's collectives from 1; its messages apart
  std::uint64_t fingerprint = 0;  ///< fingerprint_of() it, without shapes

  [[nodiscard]] bool is_message() const noexcept { return kind >= Kind::send; }
  [[nodiscard]] bool reduces() const noexcept {
    return kind == Kind::all_reduce || kind == Kind::reduce || kind == Kind::reduce_scatter;
  }
  [[nodiscard]] bool in_place() const noexcept { return input.data() == output.data(); }
};

/// A run of elements.
struct Block {
  std::int64_t begin = 0;
  std::int64_t count = 0;
};
/// The part of `numel` elements that belongs to `rank`.
[[nodiscard]] Block block_of(const std::vector<std::int64_t>& counts, std::int64_t numel, int size,
                             int rank) noexcept;

/// The part of the input for `rank`, and of the output from it.
[[nodiscard]] inline Block input_block(const Operation& operation, int size, int rank) noexcept {
  return block_of(operation.input_counts, operation.input.numel(), size, rank);
}
[[nodiscard]] inline Block output_block(const Operation& operation, int size, int rank) noexcept {
  return block_of(operation.output_counts, operation.output.numel(), size, rank);
}

/// The address of an element of `t`, on its device.
[[nodiscard]] inline std::byte* address_of(const Tensor& t, std::int64_t element = 0) noexcept {
  return static_cast<std::byte*>(t.data()) +
         element * static_cast<std::int64_t>(size_of(t.dtype()));
}

/// Some of the memory of `a` is also `b`'s.
[[nodiscard]] inline bool overlap(const Tensor& a, const Tensor& b) noexcept {
  return address_of(a) < address_of(b, b.numel()) && address_of(b) < address_of(a, a.numel()) &&
         a.numel() > 0 && b.numel() > 0;
}

/// `count` elements of `t` from `begin`, as a flat tensor over the same memory.
[[nodiscard]] Tensor elements_of(const Tensor& t, Block block);

/// A 64-bit hash of the fields in which all ranks' calls must agree: kind, reduction, root, dtype,
/// counts; with `shapes`, also the shapes of inputs that must be equal.
[[nodiscard]] std::uint64_t fingerprint_of(const Operation& operation, bool shapes) noexcept;

[[nodiscard]] constexpr const char* name_of(Operation::Kind kind) noexcept {
  constexpr std::array names{"all_reduce", "reduce",         "broadcast",  "all_gather", "gather",
                             "scatter",    "reduce_scatter", "all_to_all", "barrier",    "send",
                             "recv"};
  const auto index = static_cast<std::size_t>(kind);
  return index < names.size() ? names[index] : "unknown operation";
}

/// The message of a call on a group that has failed or was closed. `rank_name` is "rank 1 of 4
/// (node12)".
[[nodiscard]] std::string refusal(const std::string& rank_name, const std::string& reason);

}  // namespace lockstep
