#pragma once
#include <memory>
#include <string>

#include <lockstep/base/error.hpp>
#include <lockstep/comm/process_group.hpp>
#include <lockstep/train/launch/examination.hpp>
#include <lockstep/train/training_part.hpp>

// Commands of a training program other than training: rank 0 inspects and prints; nothing is
// written. Each is collective, returns the exit code, and throws AgreedError.

namespace lockstep::train {

class Task;
struct RunPlan;

/// Writes `text` to standard output, on rank 0.
ExitCode print(ProcessGroup& group, const std::string& text);

/// --dry-run: builds what a training would, and prints all settings of the deck.
ExitCode dry_run(const std::shared_ptr<ProcessGroup>& group, const Task& task, const RunPlan& plan,
                 const TrainingParts& parts, const std::string& resolved_deck);

/// --check-gradients, on rank 0: the other ranks have the same model. Returns failure if a gradient
/// is wrong.
ExitCode check_gradients(ProcessGroup& group, const Task& task, const RunPlan& plan);

/// --describe and `lockstep model describe`: model_report.
ExitCode describe(ProcessGroup& group, const Task& task, const RunPlan& plan);

/// --doctor and `lockstep doctor`: returns bad_input if a run could not start.
ExitCode doctor(ProcessGroup& group, const DeckFacts& facts, bool json);

}  // namespace lockstep::train
