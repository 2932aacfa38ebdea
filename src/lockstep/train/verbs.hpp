#pragma once
#include <memory>
#include <string>

#include <lockstep/base/error.hpp>
#include <lockstep/comm/process_group.hpp>
#include <lockstep/train/launch/examination.hpp>
#include <lockstep/train/training_part.hpp>

// What a training program does instead of training: something is looked at and printed by rank 0,
// nothing is written. Each is collective, returns the exit code, and throws AgreedError.

namespace lockstep::train {

class Task;
struct RunPlan;

/// Writes `text` to standard output, on rank 0.
ExitCode print(ProcessGroup& group, const std::string& text);

/// --dry-run: builds what a training would, and prints the deck resolved.
ExitCode dry_run(const std::shared_ptr<ProcessGroup>& group, const Task& task, const RunPlan& plan,
                 const TrainingParts& parts, const std::string& resolved_deck);

/// --check-gradients, on rank 0: the other ranks have the same model. A failure if one is wrong.
ExitCode check_gradients(ProcessGroup& group, const Task& task, const RunPlan& plan);

/// --describe and `lockstep model describe`: model_report.
ExitCode describe(ProcessGroup& group, const Task& task, const RunPlan& plan);

/// --doctor and `lockstep doctor`: bad_input if what it finds would keep a run from starting.
ExitCode doctor(ProcessGroup& group, const DeckFacts& facts, bool json);

}  // namespace lockstep::train
