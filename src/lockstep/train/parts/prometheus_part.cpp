#include <errno.h>  // program_invocation_short_name
#include <fmt/format.h>

#include <charconv>
#include <chrono>
#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include <lockstep/base/clock.hpp>
#include <lockstep/base/log.hpp>
#include <lockstep/base/read_file.hpp>
#include <lockstep/comm/process_group.hpp>
#include <lockstep/train/parts/library_parts.hpp>
#include <lockstep/train/report/metrics.hpp>
#include <lockstep/train/run/run_folder.hpp>

namespace lockstep::train {
namespace {

constexpr const char* file_name = "metrics.prom";
constexpr const char* restarts_name = "lockstep_restarts_total";
/// Prometheus asks every 15 s or less often.
constexpr Seconds between_writes{1.0};

double time_of_day() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

/// A label's value: prometheus.io/docs/instrumenting/exposition_formats.
std::string escaped(const std::string& text) {
  std::string value;
  for (const char c : text) {
    if (c == '\n') {
      value += "\\n";
      continue;
    }
    if (c == '\\' || c == '"') value += '\\';
    value += c;
  }
  return value;
}

std::string number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  return fmt::format("{}", value);
}

/// The restarts that an earlier start's file names; -1 without such a file.
double restarts_in(const std::string& text) {
  const std::string line = fmt::format("\n{}{{", restarts_name);
  const auto begin = text.find(line), space = text.find("} ", begin);
  if (begin == std::string::npos || space == std::string::npos) return -1;
  double restarts = -1;
  std::from_chars(text.data() + space + 2, text.data() + text.size(), restarts);
  return restarts;
}

/// The part for log.prometheus: keeps metrics.prom on rank 0.
class PrometheusPart final : public TrainingPart {
 public:
  [[nodiscard]] std::string name() const override { return "prometheus"; }

  void start_run(const Training& training) override {
    if (training.group->rank() != 0) return;
    constexpr std::int64_t most_bytes = 1 << 20;
    const auto file = training.folder->file(file_name);
    restarts_ = restarts_in("\n" + read_small_file_or_nothing(file, most_bytes)) + 1;
    labels_ = fmt::format("run=\"{}\",task=\"{}\"", escaped(training.folder->path().string()),
                          escaped(program_invocation_short_name));
    for (const MetricsRow& row : training.metrics->rows()) take(row);
    is_running_ = true;
    write(training);
  }
  void reported(const Training& training, const MetricsRow& row) override {
    take(row);
    if (Clock::now() - written_ > between_writes) write(training);
  }
  void saved(const Training& training, std::int64_t step) override {
    if (training.group->rank() != 0) return;
    checkpoint_step_ = step;
    checkpoint_time_ = time_of_day();
    write(training);
  }
  void end_run(const Training& training, Outcome& /*outcome*/) override {
    if (training.group->rank() != 0) return;
    is_running_ = false;
    write(training);
  }

 private:
  void take(const MetricsRow& row) {
    const std::string set = row.kind == "eval" ? row.set : "train";
    if (row.kind != "epoch") losses_[set] = row.loss;
    for (const auto& [name, value] : row.metrics) figures_[{set, name}] = value;
    if (row.samples_per_s >= 0) samples_per_s_ = row.samples_per_s;
    if (row.lr >= 0) lr_ = row.lr;
    if (row.grad_norm >= 0) grad_norm_ = row.grad_norm;
  }

  void write(const Training& training) {
    written_ = Clock::now();
    try {
      training.folder->write(file_name, text_of(training), Durability::end_of_process);
      is_warned_of_ = false;
    } catch (const std::exception& error) {
      if (std::exchange(is_warned_of_, true)) return;
      log(LogLevel::warning, fmt::format("{}. The run goes on.", error.what()));
    }
  }

  [[nodiscard]] std::string text_of(const Training& training) const {
    std::string text;
    const auto head = [&](const char* name, const char* type, const char* help) {
      text += fmt::format("# HELP {0} {2}\n# TYPE {0} {1}\n", name, type, help);
    };
    const auto one = [&](const char* name, const char* type, const char* help,
                         std::optional<double> value) {
      if (!value) return;
      head(name, type, help);
      text += fmt::format("{}{{{}}} {}\n", name, labels_, number(*value));
    };
    one("lockstep_running", "gauge", "1 while the run goes on, 0 after its end.",
        is_running_ ? 1.0 : 0.0);
    one("lockstep_last_update_timestamp_seconds", "gauge", "When this file was written.",
        time_of_day());
    one(restarts_name, "counter", "Starts of the run after the first.", restarts_);
    one("lockstep_ranks", "gauge", "Ranks of this start.", training.group->size());
    one("lockstep_step", "gauge", "Steps of the optimizer.",
        static_cast<double>(training.state.step));
    one("lockstep_epoch", "gauge", "Finished epochs.", static_cast<double>(training.state.epoch));
    one("lockstep_samples_per_second", "gauge", "Samples a second over all ranks, newest row.",
        samples_per_s_);
    one("lockstep_learning_rate", "gauge", "Learning rate, newest row.", lr_);
    one("lockstep_grad_norm", "gauge", "Norm of the gradient before clipping, newest row.",
        grad_norm_);
    one("lockstep_last_checkpoint_step", "gauge", "Step of the last checkpoint of this start.",
        checkpoint_step_);
    one("lockstep_last_checkpoint_timestamp_seconds", "gauge",
        "When the last checkpoint of this start was complete.", checkpoint_time_);
    if (!losses_.empty()) head("lockstep_loss", "gauge", "Mean loss, newest row of each set.");
    for (const auto& [set, loss] : losses_)
      text += fmt::format("lockstep_loss{{{},set=\"{}\"}} {}\n", labels_, set, number(loss));
    if (!figures_.empty())
      head("lockstep_metric", "gauge", "Metrics of the task, newest evaluation of each set.");
    for (const auto& [name, value] : figures_) {
      text += fmt::format("lockstep_metric{{{},set=\"{}\",metric=\"{}\"}} {}\n", labels_,
                          name.first, escaped(name.second), number(value));
    }
    return text;
  }

  std::string labels_;
  bool is_running_ = false, is_warned_of_ = false;
  double restarts_ = 0;
  std::optional<double> samples_per_s_, lr_, grad_norm_, checkpoint_step_, checkpoint_time_;
  std::map<std::string, double> losses_;                           ///< by set
  std::map<std::pair<std::string, std::string>, double> figures_;  ///< by set and metric
  Clock::time_point written_;
};

}  // namespace

std::shared_ptr<TrainingPart> make_prometheus_part(const RunPlan& plan) {
  return plan.log.prometheus ? std::make_shared<PrometheusPart>() : nullptr;
}

}  // namespace lockstep::train
