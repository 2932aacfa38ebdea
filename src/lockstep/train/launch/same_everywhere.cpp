#include <string>

#include <lockstep/train/launch/checks.hpp>

namespace lockstep::train {
namespace {

/// "rank 3 (node2) has X, rank 0 has Y; 2 more ranks differ from rank 0"; empty if all are equal.
std::string first_difference(const Launch& launch, std::string RankInfo::*what) {
  std::string difference;
  int more = 0;
  for (int rank = 1; rank < launch.size(); ++rank) {
    const RankInfo& info = launch.info(rank);
    if (info.*what == launch.info(0).*what) continue;
    if (!difference.empty()) {
      ++more;
      continue;
    }
    difference = "rank " + std::to_string(rank) + " (" + info.host + ") has " + info.*what +
                 ", rank 0 (" + launch.info(0).host + ") has " + launch.info(0).*what;
  }
  if (more > 0) difference += "; " + std::to_string(more) + " more differ from rank 0";
  return difference;
}

}  // namespace

Findings check_same_everywhere(const Launch& launch) {
  struct Attribute {
    Finding::Severity severity;
    const char *about, *what;
    std::string RankInfo::*field;
    const char* remedy;
  };
  using enum Finding::Severity;
  constexpr Attribute attributes[] = {
      {error, "version", "the Lockstep version", &RankInfo::version,
       "Start the same installation on every node."},
      {error, "program", "the program", &RankInfo::program,
       "Start the same executable on every node; rebuild or copy it where it is stale."},
      {error, "deck", "the resolved deck", &RankInfo::deck,
       "Give every rank the same deck, --set options and environment."},
      {warning, "processors", "the instruction sets of the processors", &RankInfo::processor,
       "The same run on other nodes may differ in the last bits, and the slower processors delay "
       "the others; ask for nodes of one kind (Slurm: --constraint)."},
  };
  Findings findings;
  for (const Attribute& attribute : attributes) {
    const std::string difference = first_difference(launch, attribute.field);
    if (difference.empty()) continue;
    findings.push_back({attribute.severity, attribute.about,
                        std::string(attribute.what) + " differ" +
                            (attribute.field == &RankInfo::processor ? "" : "s") +
                            " between ranks: " + difference,
                        attribute.remedy});
  }
  return findings;
}

}  // namespace lockstep::train
