#include "view.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <utility>

#include <lockstep/base/printable.hpp>
#include <lockstep/train/report/report.hpp>

#include "plot.hpp"

namespace lockstep::watch {
namespace {

using report::Curve;
using report::RunState;
using train::in_figures;

/// Seconds since a file was changed; negative: there is none.
std::int64_t age_of(const std::filesystem::path& file) {
  struct stat info {};
  return ::stat(file.c_str(), &info) == 0 ? std::time(nullptr) - info.st_mtim.tv_sec : -1;
}

double changed(const std::filesystem::path& file) {
  struct stat info {};
  if (::stat(file.c_str(), &info) != 0) return 0;
  return static_cast<double>(info.st_mtim.tv_sec) +
         1e-9 * static_cast<double>(info.st_mtim.tv_nsec);
}

/// The mean of the newest points.
double newest(const Curve& curve) {
  constexpr std::size_t most = 20;
  const std::size_t count = std::min(most, curve.size());
  double sum = 0;
  for (std::size_t i = curve.size() - count; i < curve.size(); ++i) sum += curve.y[i];
  return sum / static_cast<double>(count);
}

std::string count_of(std::int64_t count, const char* what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

}  // namespace

std::string cut(const std::string& text, int columns) {
  std::string line = printable(text);
  std::ranges::replace_if(
      line, [](char c) { return c == '\n' || c == '\t' || c == '\r'; }, ' ');
  int seen = 0;
  for (std::size_t at = 0; at < line.size(); ++at) {
    const bool is_continued = (static_cast<unsigned char>(line[at]) & 0xC0U) == 0x80U;  // UTF-8
    if (!is_continued && seen++ == columns) return line.substr(0, at);
  }
  return line;
}

std::string duration_in_words(double seconds) {
  if (!(seconds < 1e9)) return "for ever";
  const auto s = static_cast<std::int64_t>(std::llround(std::max(0.0, seconds)));
  const std::int64_t minutes = s / 60, hours = minutes / 60;
  if (minutes == 0) return fmt::format("{} s", s);
  if (hours == 0) return fmt::format("{} min {} s", minutes, s % 60);
  if (hours < 48) return fmt::format("{} h {} min", hours, minutes % 60);
  return fmt::format("{} d {} h", hours / 24, hours % 24);
}

View::View(std::filesystem::path folder)
    : folder_(std::move(folder)), reader_(folder_ / "metrics.jsonl") {}

void View::update() {
  run_ = report::read_run(folder_);
  was_going_on_ = was_going_on_ || !run_.owner.empty();
  reader_.read([&](const train::MetricsRow& row) { curves_.add(row); }, [&] { curves_ = {}; });
}

bool View::ended_without_summary() const {
  return was_going_on_ && run_.owner.empty() &&
         changed(folder_ / "summary.json") < changed(folder_ / "deck.toml");
}

RunState View::state() const {
  const RunState state = report::state_of(run_, curves_.last_step);
  const bool has_ended = state == RunState::completed || state == RunState::stopped;
  return has_ended && ended_without_summary() ? RunState::over : state;
}

std::string View::state_in_words() const {
  if (state() == RunState::over && ended_without_summary())
    return "ended without a summary: it failed or was killed; log.txt may tell why";
  return report::state_in_words(run_, curves_.last_step);
}

std::int64_t View::step() const {
  std::int64_t step = curves_.last_step;
  const auto told = run_.program.find("step");  // of a program with a loop of its own
  if (told != run_.program.end() && told->is_number_integer())
    step = std::max(step, told->get<std::int64_t>());
  return step;
}

std::string View::progress() const {
  std::string text = fmt::format("step {}", step());
  const std::int64_t total = curves_.total_steps;
  if (total > 0) text += fmt::format(" of {} ({} %)", total, 100 * step() / total);
  if (!curves_.last) return text;
  const auto epochs = std::ranges::find(run_.deck_keys, "train.epochs",
                                        &std::pair<std::string, std::string>::first);
  text += fmt::format(", epoch {}", curves_.last->epoch);
  if (epochs != run_.deck_keys.end()) text += " of " + epochs->second;
  const bool is_over = state() != RunState::going_on && state() != RunState::between_starts;
  if (total > step() && !is_over && !curves_.step_ms.empty()) {
    const double seconds = static_cast<double>(total - step()) * newest(curves_.step_ms) * 1e-3;
    text += fmt::format(", {} left", duration_in_words(seconds));
  }
  return text;
}

std::string View::figures() const {
  if (!curves_.last) return "no row yet";
  std::string text = "loss " + in_figures(curves_.last->loss);
  for (const auto& [name, curve] : curves_.evaluations)
    text += fmt::format(", {} {}", name, in_figures(curve.y.back()));
  return text;
}

std::string View::speed() const {
  std::string text;
  for (const auto& [curve, unit] : {std::pair{&curves_.samples_per_s, "samples/s"},
                                    std::pair{&curves_.tokens_per_s, "tokens/s"}}) {
    if (!curve->empty())
      text += fmt::format("{}{:.0f} {}", text.empty() ? "" : ", ", curve->y.back(), unit);
  }
  if (!curves_.step_ms.empty())
    text += fmt::format("{}{:.3g} ms a step", text.empty() ? "" : ", ", curves_.step_ms.y.back());
  return text.empty() ? "not known" : text;
}

std::string View::slowest() const {
  if (!curves_.last || !curves_.last->has_times) return "not known";
  return curves_.last->slowest ? curves_.last->slowest->text() : "no rank stands out";
}

std::string View::checkpoint() const {
  return run_.checkpoints.empty() ? "none" : fmt::format("step {}", run_.checkpoints.front().step);
}

std::string View::restarts() const {
  std::string text = count_of(run_.starts() - 1, "restart");
  for (auto event = run_.elastic.rbegin(); event != run_.elastic.rend(); ++event) {
    if (event->kind == "end") return text + ", last end: " + event->text;
  }
  return text;
}

std::string View::line() const {
  std::string text = fmt::format("{}; {}; {}; {}; checkpoint: {}", progress(), figures(), speed(),
                                 slowest(), checkpoint());
  if (!run_.elastic.empty()) text += "; " + restarts();
  return text + "; " + state_in_words();
}

std::vector<std::string> View::lines(int columns, int rows) const {
  std::string saved = checkpoint();
  if (!run_.checkpoints.empty())
    saved += fmt::format(", {} ago",
                         duration_in_words(static_cast<double>(run_.checkpoints.front().age_s)));
  std::string state = state_in_words();
  const std::int64_t age = age_of(folder_ / "metrics.jsonl");
  if (state_of(run_, curves_.last_step) == RunState::going_on && age >= 0)
    state += fmt::format("; newest row {} ago", duration_in_words(static_cast<double>(age)));
  std::vector<std::string> all{
      folder_.string(),           "state       " + state,   "progress    " + progress(),
      "figures     " + figures(), "speed       " + speed(), "slowest     " + slowest(),
      "checkpoint  " + saved};
  if (!run_.elastic.empty()) all.push_back("restarts    " + restarts());
  for (const std::string& fault : run_.faults) all.push_back(fault);
  // Curves share the remaining lines; each needs a title.
  const Curve& loss = curves_.batch_loss.empty() ? curves_.epoch_loss : curves_.batch_loss;
  const int room = (rows - static_cast<int>(all.size())) / 2 - 1;
  constexpr int highest = 12;
  std::vector<std::pair<std::string, const Curve*>> drawn{{"training loss", &loss}};
  if (!curves_.evaluations.empty())
    drawn.emplace_back(curves_.evaluations.back().first, &curves_.evaluations.back().second);
  for (const auto& [title, curve] : drawn) {
    const auto picture = plot(*curve, columns, std::min(room, highest));
    if (picture.empty()) continue;
    all.push_back(title);
    all.insert(all.end(), picture.begin(), picture.end());
  }
  if (std::ssize(all) > rows) all.resize(static_cast<std::size_t>(std::max(1, rows)));
  for (std::string& one : all) one = cut(one, columns);
  return all;
}

}  // namespace lockstep::watch
