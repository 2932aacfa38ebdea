#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <string_view>
#include <thread>
#include <utility>

#include <lockstep/base/error.hpp>
#include <lockstep/base/for_each_entry.hpp>
#include <lockstep/base/host.hpp>
#include <lockstep/train/report/standard_output.hpp>

#include "commands.hpp"
#include "watch/view.hpp"

namespace lockstep::utility {
namespace {

namespace fs = std::filesystem;
using report::RunState;

/// Draws over its last picture on a terminal that can; elsewhere writes lines.
class Output {
 public:
  void show(const watch::View& view) {
    if (!can_redraw_) return say(view.line());
    const auto [columns, rows] = size();
    std::string text = drawn_ > 0 ? fmt::format("\033[{}A", drawn_) : "";
    const auto lines = view.lines(columns, rows);
    for (const std::string& line : lines) text += line + "\033[K\n";
    // One write, so that an interrupt leaves a whole picture.
    train::write_stdout(text + "\033[J");
    drawn_ = lines.size();
  }
  /// A line that was just said is not said again.
  void say(const std::string& text) {
    constexpr int longest = 2000;
    const std::string line = watch::cut(text, can_redraw_ ? size().first : longest);
    if (line == said_) return;
    said_ = line;
    train::write_stdout(line + "\n");
  }

 private:
  /// Columns and rows of the terminal that may be written to. The last column stays free: some
  /// terminals wrap there at once. So does the last row, for the cursor.
  static std::pair<int, int> size() {
    winsize size{};
    const bool is_known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1;
    return {is_known ? size.ws_col - 1 : 79, is_known && size.ws_row > 1 ? size.ws_row - 1 : 23};
  }

  const std::string terminal_ = environment("TERM");
  const bool can_redraw_ = isatty(STDOUT_FILENO) == 1 && !terminal_.empty() && terminal_ != "dumb";
  std::size_t drawn_ = 0;
  std::string said_;
};

ExitCode code_of(RunState state) {
  if (state == RunState::stopped) return ExitCode::requeue;
  return state == RunState::over ? ExitCode::failure : ExitCode::done;
}

/// A folder that a run may begin in: there is none, or it holds nothing that looks like runs.
bool may_begin(const fs::path& folder) {
  std::error_code error;
  if (!fs::exists(folder, error)) return true;
  if (!fs::is_directory(folder, error)) return false;
  bool has_runs = false;
  for_each_entry(
      folder, [&](const auto& entry) { has_runs = has_runs || report::holds_a_run(entry.path()); },
      error);
  return !has_runs;
}

}  // namespace

ExitCode watch(const watch::Options& options) {
  const fs::path folder = options.run;
  watch::View view(folder);
  Output output;
  while (true) {
    if (!report::holds_a_run(folder) && !options.once && may_begin(folder)) {
      output.say(fmt::format("{}: the run has not begun; waiting for it", folder.string()));
    } else {
      view.update();
      output.show(view);
      const RunState state = view.state();
      const bool is_over = state != RunState::going_on && state != RunState::between_starts;
      if (is_over || options.once) return code_of(state);
    }
    std::this_thread::sleep_for(std::chrono::duration<double>(options.every));
  }
}

}  // namespace lockstep::utility
