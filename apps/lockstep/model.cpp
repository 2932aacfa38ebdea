#include <lockstep/parallel/mesh/mesh_plan.hpp>
#include <lockstep/train/report/mesh_report.hpp>
#include <lockstep/train/report/model_report.hpp>
#include <lockstep/train/report/standard_output.hpp>

#include "commands.hpp"
#include "known_deck.hpp"

namespace lockstep::utility {

ExitCode describe_model(const std::string& file, const std::vector<std::string>& overrides) {
  const train::Assignment deck = read_known_deck(file, overrides);
  train::write_stdout(train::model_report(*deck.task, deck.plan));
  return ExitCode::done;
}

ExitCode describe_mesh(const std::string& file, const std::vector<std::string>& overrides,
                       const std::string& mesh, int ranks_per_node) {
  const train::Assignment deck = read_known_deck(file, overrides);
  train::write_stdout(train::mesh_report(*deck.task, deck.plan, parse_mesh(mesh), ranks_per_node));
  return ExitCode::done;
}

}  // namespace lockstep::utility
