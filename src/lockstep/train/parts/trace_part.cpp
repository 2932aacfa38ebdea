#include <optional>

#include <lockstep/base/log.hpp>
#include <lockstep/comm/process_group.hpp>
#include <lockstep/train/parts/library_parts.hpp>
#include <lockstep/train/report/run_trace.hpp>
#include <lockstep/train/run/failures.hpp>
#include <lockstep/train/run/run_folder.hpp>

namespace lockstep::train {
namespace {

/// The part for train.trace: writes trace/trace.json.
class TracePart final : public TrainingPart {
 public:
  [[nodiscard]] std::string name() const override { return "trace"; }

  void start_run(const Training& training) override {
    trace_.reset();
    trace_.emplace(*training.group, training.model);
  }
  void end_run(const Training& training, Outcome& outcome) override {
    const std::filesystem::path file = training.folder->file("trace/trace.json");
    try {
      trace_->write(file);
      outcome.trace = file;
    } catch (const AgreedError& error) {
      if (outcome.stopped == StopReason::none) throw;
      // A scheduler decides on the exit code to resume from the saved state, so a failed trace must
      // not change it.
      if (training.group->rank() == 0) log(LogLevel::error, error.what());
    }
    trace_.reset();
  }

 private:
  std::optional<RunTrace> trace_;
};

}  // namespace

std::shared_ptr<TrainingPart> make_trace_part(const RunPlan& plan) {
  return plan.train.trace ? std::make_shared<TracePart>() : nullptr;
}

}  // namespace lockstep::train
