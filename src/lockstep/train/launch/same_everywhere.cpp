#include <string>

#include <lockstep/train/launch/checks.hpp>

namespace lockstep::train {
namespace {

/// "rank 3 (node2) has X, rank 0 has Y; 2 more ranks differ from rank 0"; empty if none does.
std::string first_difference(const Launch& launch, std::string Seat::*what) {
  std::string difference;
  int more = 0;
  for (int rank = 1; rank < launch.size(); ++rank) {
    const Seat& seat = launch.seat(rank);
    if (seat.*what == launch.seat(0).*what) continue;
    if (!difference.empty()) {
      ++more;
      continue;
    }
    difference = "rank " + std::to_string(rank) + " (" + seat.host + ") has " + seat.*what +
                 ", rank 0 (" + launch.seat(0).host + ") has " + launch.seat(0).*what;
  }
  if (more > 0) difference += "; " + std::to_string(more) + " more differ from rank 0";
  return difference;
}

}  // namespace

Findings check_same_everywhere(const Launch& launch) {
  struct Matter {
    Finding::Severity severity;
    const char *about, *what;
    std::string Seat::*field;
    const char* remedy;
  };
  using enum Finding::Severity;
  constexpr Matter matters[] = {
      {error, "version", "the Lockstep version", &Seat::version,
       "Start the same installation on every node."},
      {error, "program", "the program", &Seat::program,
       "Start the same executable on every node; rebuild or copy it where it is stale."},
      {error, "deck", "the resolved deck", &Seat::deck,
       "Give every rank the same deck, --set options and environment."},
      {warning, "processors", "the instruction sets of the processors", &Seat::processor,
       "The same run on other nodes may differ in the last bits, and the slower processors hold "
       "up the others; ask for nodes of one kind (Slurm: --constraint)."},
  };
  Findings findings;
  for (const Matter& matter : matters) {
    const std::string difference = first_difference(launch, matter.field);
    if (difference.empty()) continue;
    findings.push_back({matter.severity, matter.about,
                        std::string(matter.what) + " differ" +
                            (matter.field == &Seat::processor ? "" : "s") +
                            " between ranks: " + difference,
                        matter.remedy});
  }
  return findings;
}

}  // namespace lockstep::train
