#include "assignment.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include <lockstep/base/clock.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/comm/group_options.hpp>
#include <lockstep/deck/deck.hpp>
#include <lockstep/tensor/kernels/loss/loss.hpp>
#include <lockstep/train/command_line.hpp>
#include <lockstep/train/run/assignment.hpp>
#include <lockstep/train/run/run_plan.hpp>

#include "find_program.hpp"

namespace lockstep::elastic {
namespace fs = std::filesystem;
namespace {

/// Searches PATH as the shell does, then the folder of this program, where the bundled ones are.
std::string program_named(const std::string& name) {
  if (!find_program(name).empty()) return name;
  if (name.find('/') != std::string::npos) throw InputError(name + " is not an executable program");
  const fs::path beside = program_beside(name);
  if (!can_run(beside))
    throw InputError(fmt::format("there is no program {} in PATH or beside lockstep", name));
  return beside.string();
}

train::CommandLine parse(const std::vector<std::string>& command) {
  std::vector<std::string> words = command;
  if (words.size() > 1 && words[1] == "train") words.erase(words.begin() + 1);  // gpt train DECK
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  return train::parse_command_line(fs::path(command.front()).filename().string(), "",
                                   static_cast<int>(words.size()), arguments.data());
}

bool names_deck(const std::vector<std::string>& command) {
  return std::any_of(command.begin() + 1, command.end(), [](const std::string& word) {
    return !word.starts_with('-') && word.ends_with(".toml");
  });
}

void expect_some(const Sizes& sizes, const std::string& key) {
  if (sizes.divide == 0 || sizes.largest(sizes.max) > 0) return;
  throw InputError(
      fmt::format("{} needs a number of ranks that divides it; there is none from {} to {}", key,
                  sizes.min, sizes.max));
}

Assignment own_loop(const Options& options) {
  const std::string& program = options.command.front();
  const std::vector<std::string> arguments(options.command.begin() + 1, options.command.end());
  Assignment assignment{.program = program_named(program),
                        .first = arguments,
                        .later = arguments,
                        .own_loop = true,
                        .run_dir = options.dir.empty() ? "runs" / fs::path(program).filename()
                                                       : fs::path(options.dir),
                        .sizes = {.min = options.min, .max = options.max, .divide = options.shards},
                        .comm_timeout_s = Seconds(GroupOptions{}.timeout).count()};
  expect_some(assignment.sizes, fmt::format("--shards {}", options.shards));
  return assignment;
}

Assignment of_deck(const Options& options) {
  if (options.shards != 0)
    throw InputError("--shards is for programs without a deck: here train.shards in the deck says");
  const train::CommandLine line = parse(options.command);
  if (!line.trains() || line.ranks_as_threads > 0) {
    throw InputError(
        "lockstep elastic supervises trainings on several processes: leave out --help, --version, "
        "--dry-run, --describe, --doctor, --check-gradients and --ranks-as-threads");
  }
  Deck deck = Deck::load(line.deck, line.overrides);
  const train::RunPlan plan = train::read_run_plan(deck);

  Assignment assignment{.program = program_named(options.command.front()),
                        .first = {options.command.begin() + 1, options.command.end()},
                        .later = {},
                        .names_checkpoint = !line.resume_from.empty(),
                        .run_dir = train::run_folder_of(plan, line.deck),
                        .sizes = {.min = options.min, .max = options.max},
                        .comm_timeout_s = Seconds(plan.group.timeout).count()};
  for (const std::string& word : assignment.first) {
    if (word != "--resume" && !word.starts_with("--resume=")) assignment.later.push_back(word);
  }
  assignment.later.emplace_back("--resume");
  if (plan.train.reduction == train::TrainOptions::Reduction::invariant) {
    assignment.sizes.divide = plan.train.shards;
    expect_some(
        assignment.sizes,
        fmt::format("train.reduction = \"invariant\" with train.shards = {}", plan.train.shards));
  }
  return assignment;
}

}  // namespace

Assignment read_assignment(const Options& options) {
  if (options.min < 1 || options.max < options.min) {
    throw InputError(
        fmt::format("--min {} and --max {}: 1 <= min <= max is wanted", options.min, options.max));
  }
  return options.dir.empty() && names_deck(options.command) ? of_deck(options) : own_loop(options);
}

}  // namespace lockstep::elastic
