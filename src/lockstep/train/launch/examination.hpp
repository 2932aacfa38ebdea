#pragma once
#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <lockstep/comm/process_group.hpp>
#include <lockstep/train/launch/finding.hpp>
#include <lockstep/train/launch/launch.hpp>
#include <lockstep/train/launch/links.hpp>
#include <lockstep/train/options.hpp>

namespace lockstep::train {

class Task;
struct RunPlan;

/// What a deck adds to what is examined.
struct DeckFacts {
  std::string deck_hash;                      ///< empty: no deck
  std::string run_folder = "runs";            ///< where it will be
  RunOptions run;                             ///< which device it asks for
  std::optional<std::size_t> gradient_bytes;  ///< of the model, on each rank
};
/// Makes the task's model, to see how large its gradients are. Local.
[[nodiscard]] DeckFacts facts_of(const Task& task, const RunPlan& plan,
                                 const std::string& deck_hash);

/// What the launch doctor found: `lockstep doctor` and --doctor of every application print it.
struct Examination {
  std::vector<std::pair<std::string, std::string>> libraries;
  Launch launch;
  std::vector<Link> links;
  std::string run_folder;  ///< where the shared folder was looked for
  std::optional<std::size_t> gradient_bytes;
  double seconds = 0;  ///< for what every application asks at its start
  Findings findings;   ///< errors first

  [[nodiscard]] bool has_error() const;
};

/// Looks at how the ranks were placed, the links between neighbours, whether the run folder (or
/// what of its path is there: nothing is left behind) is shared, whether there are the devices that
/// the deck asks for, and whether the gradients fit into shared memory. The same on every rank.
/// Collective.
[[nodiscard]] Examination examine(ProcessGroup& group, const DeckFacts& facts);

[[nodiscard]] std::string as_text(const Examination& examination);
[[nodiscard]] std::string as_json(const Examination& examination);

}  // namespace lockstep::train
