#pragma once
#include <functional>
#include <string>
#include <vector>

#include <lockstep/comm/process_group.hpp>

// Collectives on bytes of any length and on single numbers: for settings, names and totals, not for
// what is timed.

namespace lockstep {

/// The bytes that a rank brings to one of these collectives, or why it has none. Its rank is then
/// named by the InputError that the collective throws on every rank.
struct ObjectBytes {
  std::string bytes;    ///< or the reason
  bool failed = false;  ///< there are none
};

/// Rank `root`'s bytes on every rank. Collective.
[[nodiscard]] std::string broadcast_object(ProcessGroup& group, const std::string& bytes, int root);
[[nodiscard]] std::string broadcast_object(ProcessGroup& group, const ObjectBytes& object,
                                           int root);

/// Every rank's bytes, in rank order, on every rank. Lengths may differ. Collective.
[[nodiscard]] std::vector<std::string> all_gather_object(ProcessGroup& group,
                                                         const std::string& bytes);
[[nodiscard]] std::vector<std::string> all_gather_object(ProcessGroup& group,
                                                         const ObjectBytes& object);

/// The same, where `wait` waits for each of its two works: to sleep meanwhile, or to give up by an
/// exception. Collective.
[[nodiscard]] std::vector<std::string> all_gather_object(ProcessGroup& group,
                                                         const std::string& bytes,
                                                         const std::function<void(Work&)>& wait);

/// The same on rank `root` only; empty elsewhere. Collective.
[[nodiscard]] std::vector<std::string> gather_object(ProcessGroup& group, const std::string& bytes,
                                                     int root);
[[nodiscard]] std::vector<std::string> gather_object(ProcessGroup& group, const ObjectBytes& object,
                                                     int root);

/// Element r of rank `root`'s list on rank r; the others' lists are not looked at. Collective.
/// Throws InputError on every rank if root's list has not one element a rank.
[[nodiscard]] std::string scatter_object(ProcessGroup& group,
                                         const std::vector<std::string>& objects, int root);
[[nodiscard]] std::string scatter_object(ProcessGroup& group,
                                         const std::vector<ObjectBytes>& objects, int root);

/// The reduction of one number, on every rank. Collective.
[[nodiscard]] double all_reduce_scalar(ProcessGroup& group, double value, ReduceOp op);

}  // namespace lockstep
