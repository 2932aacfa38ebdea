#include <lockstep/train/verbs.hpp>

#include <fmt/format.h>

#include <lockstep/data/dataset.hpp>
#include <lockstep/nn/module.hpp>
#include <lockstep/train/report/model_report.hpp>
#include <lockstep/train/report/standard_output.hpp>
#include <lockstep/train/run/failures.hpp>
#include <lockstep/train/run/run_plan.hpp>
#include <lockstep/train/task/model_gradients.hpp>
#include <lockstep/train/task/task.hpp>
#include <lockstep/train/trainer.hpp>

namespace lockstep::train {

ExitCode print(ProcessGroup& group, const std::string& text) {
  agree(group, 0, [&] { write_stdout(text); });
  return ExitCode::done;
}

ExitCode dry_run(const std::shared_ptr<ProcessGroup>& group, const Task& task, const RunPlan& plan,
                 const TrainingParts& parts, const std::string& resolved_deck) {
  const Datasets& data = task.data();
  agree(*group, [&] { Trainer::check(task, plan, group->size(), parts); });
  const Trainer trainer(group, task, plan, {}, parts);
  return print(*group, fmt::format("{}# {} rank{}; {} of shape {}; "
                                   "model of {} parameters; {} steps an epoch. Nothing was trained "
                                   "(--dry-run).\n",
                                   resolved_deck, group->size(), group->size() == 1 ? "" : "s",
                                   samples_in_words(data), to_string(data.train->sample_shape()),
                                   trainer.parameter_count(), trainer.steps_an_epoch()));
}

ExitCode check_gradients(ProcessGroup& group, const Task& task, const RunPlan& plan) {
  const bool ok = agree(group, 0, [&] {
    const ModelGradients gradients = check_model_gradients(task, plan.train.seed);
    write_stdout(gradients.table +
                 (gradients.ok
                      ? "# every gradient agrees. Nothing was trained (--check-gradients).\n"
                      : "# gradients marked ! do not agree: look at the backward of the operations "
                        "that use these parameters.\n"));
    return gradients.ok;
  });
  return ok ? ExitCode::done : ExitCode::failure;
}

ExitCode describe(ProcessGroup& group, const Task& task, const RunPlan& plan) {
  agree(group, 0, [&] { write_stdout(model_report(task, plan, group.size())); });
  return ExitCode::done;
}

ExitCode doctor(ProcessGroup& group, const DeckFacts& facts, bool json) {
  const Examination found = examine(group, facts);
  print(group, json ? as_json(found) : as_text(found));
  return found.has_error() ? ExitCode::bad_input : ExitCode::done;
}

}  // namespace lockstep::train
