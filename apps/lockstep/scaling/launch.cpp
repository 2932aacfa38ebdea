#include "launch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include <lockstep/base/cores.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/base/host.hpp>
#include <lockstep/deck/key_text.hpp>

#include "elastic/find_program.hpp"

namespace lockstep::scaling {
namespace {

bool is_in_allocation(const Options& options) {
  return options.members.empty() && !environment("SLURM_JOB_ID").empty();
}

std::vector<std::string> launcher_words(const Options& options) {
  if (!options.launcher.empty()) return elastic::launcher_words(options.launcher);
  if (is_in_allocation(options)) return {"srun"};
  return elastic::launcher_words(elastic::usual_mpiexec());
}

bool is_flux(const std::vector<std::string>& words) {
  return std::filesystem::path(words.front()).filename() == "flux";
}

}  // namespace

elastic::Hosts hosts_for(const Options& options, int threads) {
  if (!options.members.empty()) return elastic::members_of_file(options.members)(true);
  if (is_in_allocation(options)) return elastic::members_of_slurm()(true);
  const int cores = static_cast<int>(allowed_cores().size());
  return {{host_name(), std::max(1, cores / threads)}};
}

PointLauncher::PointLauncher(const Options& options, int threads)
    : words_(launcher_words(options)),
      launcher_(words_, !options.members.empty() || is_in_allocation(options)) {
  // srun binds by itself; of a launcher that was named nobody knows how it is told.
  if (options.launcher.empty() && !launcher_.is_srun())
    binding_ = {"-bind-to", fmt::format("core:{}", threads)};
}

elastic::Launcher::Command PointLauncher::command(const Point& point, int start,
                                                  const std::vector<std::string>& app) const {
  elastic::Launcher::Command command;
  if (is_flux(words_)) {
    command.words = words_;
    command.words.insert(command.words.end(), {fmt::format("--nodes={}", point.nodes()),
                                               fmt::format("--ntasks={}", point.ranks())});
    command.words.insert(command.words.end(), app.begin(), app.end());
    return command;
  }
  command = launcher_.command(point.placement, start, app);
  if (!point.oversubscribed) {
    command.words.insert(command.words.begin() + static_cast<std::ptrdiff_t>(words_.size()),
                         binding_.begin(), binding_.end());
  }
  return command;
}

std::int64_t steps_a_row(std::int64_t steps) {
  constexpr std::int64_t rows = 20;
  return std::max<std::int64_t>(1, steps / rows);
}

std::vector<std::string> settings_of(const Point& point, const Options& options, int threads,
                                     const std::string& run_folder) {
  std::vector<std::string> words;
  const auto set = [&](const std::string& assignment) {
    words.insert(words.end(), {"--set", assignment});
  };
  for (const std::string& own : options.overrides) set(own);
  set("run.dir=" + detail::to_toml(run_folder));
  set(fmt::format("run.threads={}", threads));
  set(fmt::format("train.batch_size={}", point.batch_size));
  set("train.epochs=1000000");  // it is stopped once its steps are done
  // Should nobody be left to stop it.
  constexpr double seconds_a_minute = 60;
  set(fmt::format("run.max_minutes={:.2f}", 1 + options.limit / seconds_a_minute));
  set("train.early_stop_patience=0");
  set(fmt::format("log.every_steps={}", steps_a_row(options.steps)));
  set("log.level=\"warn\"");
  // Of a step, not of what is saved now and then.
  for (const char* every : {"every_steps", "every_epochs", "every_minutes", "local_steps"})
    set(fmt::format("checkpoint.{}=0", every));
  return words;
}

std::string quoted(const std::vector<std::string>& command) {
  constexpr std::string_view plain =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-+=/:,@%";
  std::string text;
  for (const std::string& word : command) {
    if (!text.empty()) text += ' ';
    if (!word.empty() && word.find_first_not_of(plain) == std::string::npos) {
      text += word;
      continue;
    }
    text += '\'';
    for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
    text += '\'';
  }
  return text;
}

}  // namespace lockstep::scaling
