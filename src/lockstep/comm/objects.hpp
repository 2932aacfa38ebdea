#pragma once
#include <concepts>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <lockstep/comm/process_group.hpp>

// Collectives on bytes of any length and on single numbers: for settings, names and totals, not for
// performance-critical data.

namespace lockstep {

/// The bytes that a rank contributes to one of these collectives, or the reason why it has none.
/// Its rank is then named by the InputError that the collective throws on every rank.
struct ObjectBytes {
  ObjectBytes() = default;
  template <std::convertible_to<std::string> Text>
  ObjectBytes(Text&& text) : bytes(std::forward<Text>(text)) {}  // NOLINT: bytes are an object
  [[nodiscard]] static ObjectBytes none(std::string reason) {
    ObjectBytes object(std::move(reason));
    object.failed = true;
    return object;
  }

  std::string bytes;    ///< or the reason
  bool failed = false;  ///< no bytes
};

/// Rank `root`'s bytes on every rank. Collective.
[[nodiscard]] std::string broadcast_object(ProcessGroup& group, const ObjectBytes& object,
                                           int root);

/// Every rank's bytes, in rank order, on every rank. Lengths may differ. `wait` waits for each of
/// its two works: to sleep meanwhile, or to give up by an exception. Collective.
[[nodiscard]] std::vector<std::string> all_gather_object(
    ProcessGroup& group, const ObjectBytes& object,
    const std::function<void(Work&)>& wait = [](Work& work) { work.wait(); });

/// The same on rank `root` only; empty elsewhere. Collective.
[[nodiscard]] std::vector<std::string> gather_object(ProcessGroup& group, const ObjectBytes& object,
                                                     int root);

/// Element r of rank `root`'s list on rank r; the others' lists are not looked at. Collective.
/// Throws InputError on every rank if root's list has not one element a rank.
[[nodiscard]] std::string scatter_object(ProcessGroup& group,
                                         const std::vector<ObjectBytes>& objects, int root);
[[nodiscard]] std::string scatter_object(ProcessGroup& group,
                                         const std::vector<std::string>& objects, int root);

/// "rank 1 of 4 cannot send its object: ...", from `who` and the reason.
[[nodiscard]] std::string cannot_send_object(const std::string& who, const std::string& reason);

/// The reduction of one number, on every rank. Collective.
[[nodiscard]] double all_reduce_scalar(ProcessGroup& group, double value, ReduceOp op);

}  // namespace lockstep
