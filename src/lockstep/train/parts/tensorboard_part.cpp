#include <fmt/format.h>

#include <optional>
#include <sstream>
#include <string>

#include <lockstep/comm/process_group.hpp>
#include <lockstep/nn/module.hpp>
#include <lockstep/train/parts/library_parts.hpp>
#include <lockstep/train/report/event_file.hpp>
#include <lockstep/train/report/metrics.hpp>
#include <lockstep/train/run/run_folder.hpp>
#include <lockstep/train/strategy/strategy.hpp>

namespace lockstep::train {
namespace {

/// Markdown shows lines with four spaces before them as they are.
std::string as_code(const std::string& text) {
  std::string code;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) code += "    " + line + '\n';
  return code;
}

/// "train/loss", "epoch/loss", "validation/accuracy", "train_time_min_mean_max_s/compute/mean".
std::string tag_of(const MetricsRow& row, const std::string& figure) {
  const std::string& group = row.kind == "eval" ? row.set : row.kind == "step" ? "train" : row.kind;
  const bool is_part = figure.find('/') != std::string::npos;
  return fmt::format("{}{}{}", group, is_part ? '_' : '/', figure);
}

/// The part for log.tensorboard: writes tensorboard/ on rank 0.
class TensorBoardPart final : public TrainingPart {
 public:
  explicit TensorBoardPart(std::int64_t histogram_every) : histogram_every_(histogram_every) {}

  [[nodiscard]] std::string name() const override { return "tensorboard"; }

  /// A resumed run replaces the files' contents from its step on, and writes the rows of that
  /// step again: by its epoch a row of the same step may belong to the past or to the future.
  void start_run(const Training& training) override {
    if (training.group->rank() != 0) return;
    const auto folder = training.folder->file("tensorboard");
    const std::int64_t step = training.state.step;
    const bool is_continued = training.metrics->continues_itself() && EventFile::are_in(folder);
    const std::int64_t purge_step = is_continued ? step : 0;
    file_.emplace(folder, purge_step);
    for (const MetricsRow& row : training.metrics->rows()) {
      if (row.step >= purge_step) add(row);
    }
    EventSummary text;
    text.add_text("deck/text_summary", as_code(*training.deck));
    file_->add(step, text);
    file_->flush();
  }
  void reported(const Training& /*training*/, const MetricsRow& row) override {
    add(row);
    file_->flush();
  }
  void after_step(const Training& training, const StepResult& /*step*/) override {
    if (!file_ || histogram_every_ == 0 || training.state.step % histogram_every_ != 0) return;
    EventSummary values;
    for (const auto& [name, parameter] : training.strategy.named_parameters()) {
      if (const Tensor gradient = parameter.grad(); gradient.defined())
        values.add_histogram("gradients/" + name, histogram_of(gradient));
      values.add_histogram("parameters/" + name, histogram_of(parameter.data()));
    }
    file_->add(training.state.step, values);
    file_->flush();
  }
  void end_run(const Training& /*training*/, Outcome& /*outcome*/) override { file_.reset(); }

 private:
  void add(const MetricsRow& row) {
    EventSummary values;
    for (const auto& [figure, value] : figures_of(row))
      values.add_scalar(tag_of(row, figure), value);
    file_->add(row.step, values);
  }

  std::int64_t histogram_every_;
  std::optional<EventFile> file_;  ///< on rank 0, in a run
};

}  // namespace

std::shared_ptr<TrainingPart> make_tensorboard_part(const RunPlan& plan) {
  return plan.log.tensorboard ? std::make_shared<TensorBoardPart>(plan.log.histogram_every_steps)
                              : nullptr;
}

}  // namespace lockstep::train
