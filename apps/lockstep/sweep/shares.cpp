#include "shares.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>

#include <lockstep/base/error.hpp>

namespace lockstep::sweep {
namespace {

using elastic::Host;
using elastic::Hosts;
using elastic::Placement;

/// Takes a trial's slots from `left`: of one host that has as many, else of the first ones.
/// No ranks if there are too few.
Placement take(Hosts& left, int ranks) {
  const auto whole = std::ranges::find_if(left, [&](const Host& h) { return h.slots >= ranks; });
  const Placement placement = whole != left.end()
                                  ? Placement{.hosts = {{whole->name, ranks}}}
                                  : elastic::place(left, {.min = ranks, .max = ranks});
  for (const Host& used : placement.hosts)
    std::ranges::find(left, used.name, &Host::name)->slots -= used.slots;
  return placement;
}

}  // namespace

std::vector<Share> divide(const Division& input) {
  std::vector<Share> shares;
  if (input.oversubscribe) {
    if (input.hosts.size() != 1)
      throw InputError("--oversubscribe is for one machine, and there are several hosts");
    const Placement all{.hosts = {{input.hosts.front().name, input.ranks}}};
    shares.assign(static_cast<std::size_t>(std::max(1, input.parallel)), {all, {}});
    return shares;
  }
  int slots = 0;
  for (const Host& host : input.hosts) slots += host.slots;
  Hosts left = input.hosts;
  std::size_t core = 0;
  while (input.parallel == 0 || static_cast<int>(shares.size()) < input.parallel) {
    Placement placement = take(left, input.ranks);
    if (placement.ranks() == 0) break;
    Share share{.placement = std::move(placement), .cores = {}};
    const auto wanted = static_cast<std::size_t>(input.ranks) *
                        static_cast<std::size_t>(std::max(1, input.threads));
    if (core + wanted <= input.cores.size()) {
      const auto first = input.cores.begin() + static_cast<std::ptrdiff_t>(core);
      share.cores.assign(first, first + static_cast<std::ptrdiff_t>(wanted));
      core += wanted;
    }
    shares.push_back(std::move(share));
  }
  if (shares.empty() || static_cast<int>(shares.size()) < input.parallel) {
    const bool is_this_machine = !input.cores.empty();
    throw InputError(fmt::format(
        "there is no room for {} trial{} of {} rank{} at a time on {} slot{}: lower --parallel or "
        "--ranks-per-trial, or {}",
        std::max(1, input.parallel), input.parallel > 1 ? "s" : "", input.ranks,
        input.ranks == 1 ? "" : "s", slots, slots == 1 ? "" : "s",
        is_this_machine ? "share cores with --oversubscribe"
                        : "give the sweep more hosts or tasks"));
  }
  return shares;
}

}  // namespace lockstep::sweep
