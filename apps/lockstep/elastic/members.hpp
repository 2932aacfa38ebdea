#pragma once
// What there is to run on.
#include <functional>
#include <string>
#include <vector>

namespace lockstep::elastic {

/// A machine, and how many ranks it takes.
struct Host {
  std::string name;
  int slots = 0;
  bool operator==(const Host&) const = default;
};
using Hosts = std::vector<Host>;

/// What there is at this moment, asked as often as wanted; it may change. With `now` an answer is
/// not spared because there was one a moment ago.
using Members = std::function<Hosts(bool now)>;

/// A file of lines "HOST [SLOTS]", one slot where no number stands; `#` begins a comment; a host is
/// a name or an IPv4 address, as the launcher and ssh get it on their command lines. It is read at
/// each call. Throws InputError at the first; what cannot be read later, as while somebody writes
/// it, changes nothing, and is said in a warning once.
[[nodiscard]] Members members_of_file(const std::string& path);

/// The nodes of the Slurm allocation that this process is in, with the tasks a node that it was
/// given for; without nodes that are down, or that Slurm has taken out of it after a failure. Asks
/// Slurm, at most every `slurm_asked_s` seconds. Throws InputError where Slurm says nothing about
/// the allocation.
inline constexpr double slurm_asked_s = 10;
[[nodiscard]] Members members_of_slurm();

/// This machine. Throws InputError if so many ranks cannot be here.
[[nodiscard]] Members members_of_this_machine(int slots);

/// The text of such a file; `name` is for messages. Throws InputError naming the line.
[[nodiscard]] Hosts parse_members(const std::string& text, const std::string& name);

/// Slurm's tasks a node, "2(x3),1": 2 2 2 1. Throws InputError.
[[nodiscard]] std::vector<int> parse_tasks_per_node(const std::string& text);

}  // namespace lockstep::elastic
