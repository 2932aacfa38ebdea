#pragma once
#include <functional>
#include <string>
#include <vector>

#include <lockstep/comm/process_group.hpp>

// Collectives on bytes of any length and on single numbers: for settings, names and totals, not for
// what is timed.

namespace lockstep {

/// Rank `root`'s bytes on every rank. Collective.
[[nodiscard]] std::string broadcast_object(ProcessGroup& group, const std::string& bytes, int root);

/// Every rank's bytes, in rank order, on every rank. Lengths may differ. Collective.
[[nodiscard]] std::vector<std::string> all_gather_object(ProcessGroup& group,
                                                         const std::string& bytes);

/// The same, where `wait` waits for each of its two works: to sleep meanwhile, or to give up by an
/// exception. Collective.
[[nodiscard]] std::vector<std::string> all_gather_object(ProcessGroup& group,
                                                         const std::string& bytes,
                                                         const std::function<void(Work&)>& wait);

/// The same on rank `root` only; empty elsewhere. Collective.
[[nodiscard]] std::vector<std::string> gather_object(ProcessGroup& group, const std::string& bytes,
                                                     int root);

/// Element r of rank `root`'s list on rank r; the others' lists are not looked at. Collective.
/// Throws InputError on every rank if root's list has not one element a rank.
[[nodiscard]] std::string scatter_object(ProcessGroup& group,
                                         const std::vector<std::string>& objects, int root);

/// The reduction of one number, on every rank. Collective.
[[nodiscard]] double all_reduce_scalar(ProcessGroup& group, double value, ReduceOp op);

}  // namespace lockstep
