#pragma once
#include <cstddef>
#include <cstdint>
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

/// The deck's part of the examination.
struct DeckFacts {
  std::string deck_hash;                      ///< empty: no deck
  std::string run_folder = "runs";            ///< path of the run folder
  RunOptions run;                             ///< device it asks for
  std::optional<std::size_t> gradient_bytes;  ///< number of the model's parameters, on each rank
  std::int64_t batch_size = 0;                ///< 0: no deck
  MeshOptions mesh;
};
/// Makes the task's model, to measure its gradients. Local.
[[nodiscard]] DeckFacts facts_of(const Task& task, const RunPlan& plan,
                                 const std::string& deck_hash);

/// Results of the launch doctor, printed by `lockstep doctor` and by --doctor of every application.
struct Examination {
  std::vector<std::pair<std::string, std::string>> libraries;
  Launch launch;
  std::vector<Link> links;
  std::string run_folder;  ///< folder in which sharing was tested
  std::optional<std::size_t> gradient_bytes;
  double seconds = 0;  ///< time of the checks that every application runs at its start
  Findings findings;   ///< errors first

  [[nodiscard]] bool has_error() const;
};

/// Checks the placement of ranks, the links between neighbours, whether all ranks see the same run
/// folder (or its nearest existing parent; nothing is left behind), whether the deck's devices are
/// available, and whether the gradients fit into shared memory. The same on every rank. Collective.
[[nodiscard]] Examination examine(ProcessGroup& group, const DeckFacts& facts);

[[nodiscard]] std::string as_text(const Examination& examination);
[[nodiscard]] std::string as_json(const Examination& examination);

}  // namespace lockstep::train
