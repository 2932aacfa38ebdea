#pragma once
// Hosts and slots to run on.
#include <functional>
#include <string>
#include <vector>

namespace lockstep::elastic {

/// A machine and its number of slots for ranks.
struct Host {
  std::string name;
  int slots = 0;
  bool operator==(const Host&) const = default;
};
using Hosts = std::vector<Host>;

/// Returns the present members; may be called at any time, and the answer may change. `now` forces
/// a new query even shortly after the last.
using Members = std::function<Hosts(bool now)>;

/// A file of lines "HOST [SLOTS]"; one slot without a number; `#` begins a comment. A host is a
/// name or an IPv4 address, passed to the launcher and ssh as it stands. The file is read at each
/// call. Throws InputError at the first call. Later an unreadable file, for example one being
/// written, changes nothing and gives one warning.
[[nodiscard]] Members members_of_file(const std::string& path);

/// The nodes of the Slurm allocation of this process, with its tasks per node. Leaves out nodes
/// that are down, or that Slurm removed after a failure. Asks Slurm at most every `slurm_asked_s`
/// seconds. Throws InputError if the allocation cannot be read.
inline constexpr double slurm_asked_s = 10;
[[nodiscard]] Members members_of_slurm();

/// This machine. Throws InputError if it cannot hold so many ranks.
[[nodiscard]] Members members_of_this_machine(int slots);

/// Parses the text of such a file; `name` is for messages. Throws InputError naming the line.
[[nodiscard]] Hosts parse_members(const std::string& text, const std::string& name);

/// Parses Slurm's tasks per node: "2(x3),1" gives 2 2 2 1. Throws InputError.
[[nodiscard]] std::vector<int> parse_tasks_per_node(const std::string& text);

}  // namespace lockstep::elastic
