#pragma once
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <lockstep/train/run/run_plan.hpp>
#include <lockstep/train/task/task.hpp>
#include <lockstep/train/training_part.hpp>

namespace lockstep::train {

/// A parsed deck: the starting point of every verb of every program.
struct Assignment {
  RunPlan plan;  ///< with run.dir, which a deck may omit
  std::unique_ptr<Task> task;
  TrainingParts parts;  ///< the program's own
  std::string deck;     ///< resolved: reading it again gives the same assignment
  std::string hash;
};

/// Reads every table of a deck and loads its data. Throws InputError, also for an unread table or
/// key. Local.
[[nodiscard]] Assignment read_assignment(const std::string& file,
                                         const std::vector<std::string>& overrides,
                                         const TaskFactory& make_task,
                                         const std::vector<PartFactory>& make_parts = {});

/// The deck's file, and the existing files and folders of data.path and data.test_path in `deck`,
/// the resolved text. Throws InputError for a pattern without a match. Local.
[[nodiscard]] std::vector<std::filesystem::path> files_read_by(const std::string& file,
                                                               const std::string& deck);

/// run.dir of the deck in `file`; if that is empty, runs/<name of the deck>.
[[nodiscard]] std::filesystem::path run_folder_of(const RunPlan& plan, const std::string& file);

}  // namespace lockstep::train
