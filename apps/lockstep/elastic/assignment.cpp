#include "assignment.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include <lockstep/base/clock.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/comm/group_options.hpp>
#include <lockstep/deck/deck.hpp>
#include <lockstep/parallel/mesh/device_mesh.hpp>
#include <lockstep/tensor/kernels/loss/loss.hpp>
#include <lockstep/train/command_line.hpp>
#include <lockstep/train/run/assignment.hpp>
#include <lockstep/train/run/rank_groups.hpp>
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

void expect_some(const Assignment& assignment, const Options& options) {
  if (assignment.sizes.smallest() > 0) return;
  throw InputError(fmt::format("{}; there is no such number from --min {} to --max {}",
                               assignment.condition, options.min, options.max));
}

void add_condition(Assignment& assignment, const std::string& condition) {
  assignment.condition += (assignment.condition.empty() ? "" : ", and ") + condition;
}

/// The ranks that remain after a loss must form a mesh of this deck again.
void take_mesh(const train::MeshOptions& mesh, Assignment& assignment) {
  Sizes& sizes = assignment.sizes;
  std::vector<std::string> fixed;
  const std::string* free = nullptr;
  const std::vector<MeshDim> dims = train::dims_of(mesh);
  for (const MeshDim& dim : dims) {
    if (dim.size == -1) free = &dim.name;
    if (dim.size < 1) continue;
    sizes.multiple *= dim.size;
    if (dim.size > 1) fixed.push_back(fmt::format("mesh.{} = {}", dim.name, dim.size));
  }
  const std::string keys = fmt::format("{}", fmt::join(fixed, ", "));
  if (free) {
    if (sizes.multiple > 1)
      add_condition(assignment, fmt::format("{} wants a multiple of {} ranks, as only mesh.{} "
                                            "changes with their number",
                                            keys, sizes.multiple, *free));
    return;
  }
  sizes.min = std::max<int>(sizes.min, static_cast<int>(sizes.multiple));
  sizes.max = std::min<int>(sizes.max, static_cast<int>(sizes.multiple));
  add_condition(assignment,
                fmt::format("{} is a mesh of {} ranks and no other number (mesh.dp = -1 goes on "
                            "with fewer)",
                            keys.empty() ? "mesh.dp = 1" : keys, sizes.multiple));
}

/// `shards` of a batch, each of which one rank sums.
void take_shards(std::int64_t shards, const std::string& key, Assignment& assignment) {
  assignment.sizes.divide = shards;
  const std::int64_t together = assignment.sizes.multiple;
  add_condition(assignment,
                fmt::format("{} needs a number of {} that divides it", key,
                            together == 1 ? "ranks" : fmt::format("groups of {} ranks", together)));
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
                        .sizes = {.min = options.min, .max = options.max},
                        .condition = {},
                        .comm_timeout_s = Seconds(GroupOptions{}.timeout).count()};
  if (options.shards > 0)
    take_shards(options.shards, fmt::format("--shards {}", options.shards), assignment);
  expect_some(assignment, options);
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
                        .condition = {},
                        .comm_timeout_s = Seconds(plan.group.timeout).count()};
  for (const std::string& word : assignment.first) {
    if (word != "--resume" && !word.starts_with("--resume=")) assignment.later.push_back(word);
  }
  assignment.later.emplace_back("--resume");
  take_mesh(plan.mesh, assignment);
  if (plan.train.reduction == train::TrainOptions::Reduction::invariant && plan.mesh.dp == -1) {
    take_shards(
        plan.train.shards,
        fmt::format("train.reduction = \"invariant\" with train.shards = {}", plan.train.shards),
        assignment);
  }
  expect_some(assignment, options);
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
