#include <lockstep/train/run/assignment.hpp>

#include <filesystem>

#include <lockstep/deck/deck.hpp>

namespace lockstep::train {

Assignment read_assignment(const std::string& file, const std::vector<std::string>& overrides,
                           const TaskFactory& make_task,
                           const std::vector<PartFactory>& make_parts) {
  auto deck = Deck::load(file, overrides);
  Assignment assignment{.plan = read_run_plan(deck)};
  assignment.task = make_task(deck);
  for (const PartFactory& make_part : make_parts) assignment.parts.push_back(make_part(deck));
  deck.check_all_read();
  assignment.plan.run.dir = run_folder_of(assignment.plan, file).string();
  deck.record("run", assignment.plan.run);  // in the run folder the deck has another name
  assignment.deck = deck.resolved();
  assignment.hash = deck.hash();
  return assignment;
}

std::filesystem::path run_folder_of(const RunPlan& plan, const std::string& file) {
  namespace fs = std::filesystem;
  return plan.run.dir.empty() ? "runs" / fs::path(file).stem() : fs::path(plan.run.dir);
}

}  // namespace lockstep::train
