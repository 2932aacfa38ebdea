#include <lockstep/train/assignment.hpp>

#include <filesystem>

#include <lockstep/deck/deck.hpp>

namespace lockstep::train {

Assignment read_assignment(const std::string& file, const std::vector<std::string>& overrides,
                           const TaskFactory& make_task) {
  namespace fs = std::filesystem;
  auto deck = Deck::load(file, overrides);
  Assignment assignment{.plan = read_run_plan(deck)};
  assignment.task = make_task(deck);
  deck.check_all_read();
  assignment.deck = deck.resolved();
  assignment.hash = deck.hash();
  std::string& dir = assignment.plan.run.dir;
  if (dir.empty()) dir = (fs::path("runs") / fs::path(file).stem()).string();
  return assignment;
}

}  // namespace lockstep::train
