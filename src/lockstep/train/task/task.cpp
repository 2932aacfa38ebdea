#include <lockstep/train/task/task.hpp>

#include <fmt/format.h>

#include <algorithm>

#include <lockstep/base/error.hpp>
#include <lockstep/nn/module.hpp>
#include <lockstep/parallel/pipeline/stages_of.hpp>

namespace lockstep::train {
Variable Task::forward_from_stages(const PipelineStages& stages, const Variable& x,
                                   const Batch& /*batch*/) const {
  return stages.output(x);
}

Variable Task::forward(nn::Module& model, const Batch& batch) const {
  return model.forward(Variable(batch.inputs()));
}

bool greater_is_better(const Task& task, const std::string& figure, const char* key) {
  const auto& data = judged_by(task.data());
  if (!data) {
    throw InputError(fmt::format(
        "{} = \"{}\" needs an evaluation, but there is neither a validation nor a test set. Set "
        "data.validation_fraction, or leave it out.",
        key, figure));
  }
  if (figure == "loss") return false;
  const std::vector<Metric> metrics = task.metrics(*data);
  const auto at = std::ranges::find(metrics, figure, &Metric::name);
  if (at != metrics.end()) return at->greater_is_better;
  std::string names = "loss";
  for (const Metric& metric : metrics) names += ", " + metric.name;
  throw InputError(fmt::format("{} = \"{}\" is not a figure of the evaluation. Choose one of: {}.",
                               key, figure, names));
}

std::string samples_in_words(const Datasets& data) {
  const auto part = [](const std::shared_ptr<const Dataset>& set, const char* name) {
    return set ? fmt::format("{} {}", set->size(), name) : std::string();
  };
  const std::string train = part(data.train, "training"),
                    validation = part(data.validation, "validation"),
                    test = part(data.test, "test");
  if (validation.empty() && test.empty()) return train + " samples";
  if (validation.empty() || test.empty())
    return train + " and " + (test.empty() ? validation : test) + " samples";
  return train + ", " + validation + " and " + test + " samples";
}

}  // namespace lockstep::train
