#include "launcher.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <sstream>

#include <lockstep/base/error.hpp>
#include <lockstep/base/helper_program.hpp>
#include <lockstep/base/host.hpp>
#include <lockstep/train/run/slurm_time.hpp>

#include "find_program.hpp"

namespace lockstep::elastic {
namespace {

/// The number right after `before` in `text`.
std::optional<int> number_behind(std::string_view text, std::string_view before) {
  const auto at = text.find(before);
  if (at == std::string_view::npos) return std::nullopt;
  text.remove_prefix(at + before.size());
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return std::nullopt;
  return number;
}

std::string step_name(int start) { return fmt::format("lockstep-elastic-{}-{}", getpid(), start); }

bool says(std::string_view text, std::string_view words) {
  return text.find(words) != std::string_view::npos;
}

/// The signal whose strsignal() text srun prints: "Killed", "Segmentation fault", ...
int signal_called(std::string_view words) {
  for (const int number : {SIGKILL, SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGTERM, SIGQUIT}) {
    if (words.starts_with(strsignal(number))) return number;
  }
  return 0;
}

/// "srun: error: node2: task 3: Killed", "srun: error: node1: tasks 0-1: Out Of Memory".
void read_srun(std::string_view text, Blame& blame) {
  constexpr std::string_view beginning = "srun: error: ";
  if (says(text, "oom-kill") || says(text, "Out Of Memory")) blame.out_of_memory = true;
  if (!text.starts_with(beginning)) return;
  text.remove_prefix(beginning.size());
  constexpr std::string_view failure = "Node failure on ";
  if (text.starts_with(failure)) blame.failed_node = text.substr(failure.size());
  if (text.starts_with("Unable to create step")) blame.not_started = true;
  if (blame.rank >= 0) return;
  auto rank = number_behind(text, ": task ");
  if (!rank) rank = number_behind(text, ": tasks ");
  if (!rank) return;
  const auto reason = text.rfind(": ");
  // srun reports the tasks it ends because of another one's failure, too.
  if (says(text, "Exited with exit code 0")) return;
  blame.rank = *rank;
  blame.host = text.substr(0, text.find(':'));
  blame.signal = signal_called(text.substr(reason + 2));
}

/// Linux's limit on one word of a command line (MAX_ARG_STRLEN).
constexpr std::size_t longest_word = 131'071;

/// "=   PID 13301 RUNNING AT node1", "... EXIT STRING: Killed (signal 9)".
void read_mpiexec(std::string_view text, Blame& blame) {
  constexpr std::string_view running = " RUNNING AT ";
  if (text.starts_with("=   PID ") && says(text, running) && blame.pid == 0) {
    blame.pid = number_behind(text, "=   PID ").value_or(0);
    blame.host = text.substr(text.find(running) + running.size());
  }
  if (says(text, "TERMINATED WITH THE EXIT STRING") && blame.signal == 0)
    blame.signal = number_behind(text, "(signal ").value_or(0);
}

}  // namespace

void expect_no_launcher(const char* command) {
  for (const char* rank : {"PMI_RANK", "OMPI_COMM_WORLD_RANK"}) {
    if (environment(rank).empty()) continue;
    throw InputError(fmt::format("{} starts the ranks itself: start it without mpiexec", command));
  }
}

std::string first_words(const std::string& output) {
  constexpr std::size_t longest = 300;
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);) {
    const auto is_letter = [](unsigned char c) { return std::isalpha(c) != 0; };
    if (std::ranges::any_of(line, is_letter)) return line.substr(0, longest);
  }
  return {};
}

void LauncherWords::line(std::string_view text) {
  read_srun(text, blame_);
  read_mpiexec(text, blame_);
}

std::string usual_mpiexec() {
  const char* const mpich = "mpiexec.mpich";
  return find_program(mpich).empty() ? "mpiexec" : mpich;
}

std::vector<std::string> launcher_words(const std::string& launcher) {
  std::istringstream text(launcher);
  std::vector<std::string> words;
  for (std::string word; text >> word;) words.push_back(word);
  if (words.empty()) throw InputError("--launcher is empty: name a command");
  if (find_program(words.front()).empty()) {
    throw InputError(
        fmt::format("the launcher {} is not an executable program: name another with --launcher",
                    words.front()));
  }
  return words;
}

Launcher::Launcher(std::vector<std::string> words, bool names_hosts)
    : words_(std::move(words)),
      names_hosts_(names_hosts),
      is_srun_(std::filesystem::path(words_.front()).filename() == "srun") {}

Launcher::Command Launcher::command(const Placement& placement, int start,
                                    const std::vector<std::string>& app) const {
  Command command{.words = words_, .environment = {}};
  const auto add = [&](std::initializer_list<std::string> words) {
    command.words.insert(command.words.end(), words);
  };
  std::vector<std::string> hosts;
  if (is_srun_) {
    // One host per rank: srun's own distributions cannot leave a slot of one node free.
    for (const Host& host : placement.hosts) {
      hosts.insert(hosts.end(), static_cast<std::size_t>(host.slots), host.name);
    }
    const char* cores = std::getenv("SLURM_CPUS_PER_TASK");
    const auto names_mpi = [](const std::string& word) { return word.starts_with("--mpi"); };
    if (std::ranges::none_of(words_, names_mpi)) add({"--mpi=pmi2"});
    add({"--kill-on-bad-exit=1", "--overlap", "--distribution=arbitrary",
         fmt::format("--job-name={}", step_name(start)),
         fmt::format("--cpus-per-task={}", cores ? cores : "1"),
         fmt::format("--nodes={}", placement.hosts.size()),
         fmt::format("--ntasks={}", placement.ranks()),
         fmt::format("--nodelist={}", fmt::join(hosts, ","))});
  } else {
    for (const Host& host : placement.hosts)
      hosts.push_back(fmt::format("{}:{}", host.name, host.slots));
    if (names_hosts_) add({"-hosts", fmt::format("{}", fmt::join(hosts, ","))});
    add({"-n", std::to_string(placement.ranks())});
  }
  for (const std::string& word : command.words) {
    if (word.size() <= longest_word) continue;
    throw InputError(fmt::format(
        "{} ranks on {} hosts do not fit on the command line of {}: the list of hosts has {} "
        "bytes, the system's limit is {}. Use fewer ranks (--max), or larger hosts.",
        placement.ranks(), placement.hosts.size(), words_.front(), word.size(), longest_word));
  }
  command.words.insert(command.words.end(), app.begin(), app.end());
  return command;
}

std::vector<std::string> Launcher::probe(const std::string& host) const {
  auto command = words_;
  command.insert(command.end(), {"-hosts", host, "-n", "1", "true"});
  return command;
}

std::optional<std::string> Launcher::why_silent(const std::string& host, double limit_s) const {
  // Slurm itself removes a lost node from the members.
  if (!names_hosts_ || is_srun_) return std::nullopt;
  const HelperEnd answer = run_helper(probe(host), limit_s, {.with_errors = true});
  if (answer.kind == HelperEnd::Kind::good) return std::nullopt;
  const std::string words = first_words(answer.output);
  return words.empty() ? fmt::format("no answer within {:.0f} s", limit_s) : words;
}

void Launcher::end_elsewhere(int start) const {
  if (!is_srun_) return;
  const std::string job = train::slurm_job();
  if (job.empty()) return;
  const HelperEnd steps = run_helper(
      {"squeue", "--noheader", "--steps", "--job", job, "--format", "%i %j"}, answers_within_s);
  std::istringstream lines(steps.output);
  for (std::string id, name; lines >> id >> name;) {
    if (name == step_name(start))
      static_cast<void>(run_helper({"scancel", "--signal=KILL", id}, answers_within_s));
  }
}

}  // namespace lockstep::elastic
