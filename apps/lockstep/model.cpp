#include <fmt/format.h>

#include <lockstep/deck/deck.hpp>
#include <lockstep/train/model_report.hpp>
#include <lockstep/train/run_plan.hpp>
#include <lockstep/train/task.hpp>

#include "commands.hpp"

namespace lockstep::utility {

ExitCode describe_model(const std::string& file, const std::vector<std::string>& overrides) {
  auto deck = Deck::load(file, overrides);
  const auto plan = train::read_run_plan(deck);
  const auto task = train::Classification(deck);
  deck.check_all_read();
  fmt::print("{}", train::model_report(task, plan));
  return ExitCode::done;
}

}  // namespace lockstep::utility
