#include "keeper.hpp"

#include <fcntl.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <exception>
#include <fstream>
#include <regex>
#include <system_error>

#include <lockstep/base/clock.hpp>
#include <lockstep/base/error.hpp>

#include "elastic/child.hpp"
#include "elastic/stop_signals.hpp"

namespace lockstep::sweep {
namespace fs = std::filesystem;
namespace {

std::atomic<bool> is_trial_to_stop{false};

void note_stop_of_trial(int /*signal*/) { is_trial_to_stop = true; }

void bind_to(const std::vector<int>& cores) {
  if (cores.empty()) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int core : cores) CPU_SET(core, &set);
  static_cast<void>(sched_setaffinity(0, sizeof set, &set));  // slower, but no worse, without
}

/// Holds back the signals that ask to stop: between a fork and the handlers of the new process they
/// would be lost, or end it without a word.
class HeldBackStopSignals {
 public:
  HeldBackStopSignals() {
    sigset_t held;
    sigemptyset(&held);
    for (const int number : {SIGTERM, SIGINT, SIGUSR1, SIGHUP}) sigaddset(&held, number);
    sigprocmask(SIG_BLOCK, &held, &before_);
  }
  ~HeldBackStopSignals() { release(); }
  HeldBackStopSignals(const HeldBackStopSignals&) = delete;
  HeldBackStopSignals& operator=(const HeldBackStopSignals&) = delete;

  void release() const { sigprocmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_{};
};

/// Asks the ranks to save and end, first by a signal that launchers pass on, then by the file that
/// a run looks for; srun kills its ranks on SIGTERM.
void end(elastic::Child& child, const fs::path& run_folder) {
  constexpr Seconds for_the_signal{2}, for_the_save{60}, last_words{5};
  child.signal(SIGUSR1);
  if (child.wait(for_the_signal)) return;
  std::error_code error;
  if (fs::is_directory(run_folder, error)) std::ofstream(run_folder / "stop") << "sweep\n";
  if (child.wait(for_the_save)) return;
  child.signal(SIGTERM);
  static_cast<void>(child.wait(last_words));
}

Ended watch(const Keeper::Start& start) {
  constexpr Seconds look_each{0.1};
  bind_to(start.cores);
  std::error_code ignored;
  fs::remove(start.run_folder / "stop", ignored);  // of a sweep that was killed
  std::ofstream output(start.output, std::ios::app);
  elastic::LauncherWords launcher;
  Ended ended{.was_stopped = is_trial_to_stop};
  if (ended.was_stopped) return ended;
  std::string first;
  const auto listen = [&](std::string_view line) {
    output << line << '\n' << std::flush;
    launcher.line(line);
    if (first.empty()) first = elastic::first_words(std::string(line));
    if (ended.sentence.empty()) ended.sentence = reason_on(line, start.program, start.deck);
  };
  const elastic::Launcher::Command command = start.command(1);
  elastic::Child child(command.words, command.environment, listen,
                       elastic::Child::Output::listened_to);
  while (!child.wait(look_each)) {
    if (!is_trial_to_stop) continue;
    ended.was_stopped = true;
    end(child, start.run_folder);
    break;
  }
  static_cast<void>(child.kill_all());
  ended.code = child.code();
  if (ended.code != 0) start.end_elsewhere(1);
  ended.signal = launcher.blame().signal;
  ended.out_of_memory = launcher.blame().out_of_memory;
  ended.words = first;
  return ended;
}

Json json_of(const Ended& ended) {
  return {{"code", ended.code},         {"was_stopped", ended.was_stopped},
          {"sentence", ended.sentence}, {"signal", ended.signal},
          {"words", ended.words},       {"out_of_memory", ended.out_of_memory}};
}

Ended ended_of(const Json& json) {
  return {.code = json.at("code").get<int>(),
          .was_stopped = json.at("was_stopped").get<bool>(),
          .sentence = json.at("sentence").get<std::string>(),
          .signal = json.at("signal").get<int>(),
          .out_of_memory = json.at("out_of_memory").get<bool>(),
          .words = json.at("words").get<std::string>()};
}

/// In the process of its own; never returns, so that nothing of its parent's is released.
[[noreturn]] void keep(const Keeper::Start& start, pid_t parent, int answer,
                       const HeldBackStopSignals& held_back) {
  elastic::on_stop_signals(note_stop_of_trial);
  held_back.release();
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) is_trial_to_stop = true;
  Ended ended;
  try {
    ended = watch(start);
  } catch (const std::exception& error) {
    ended.words = error.what();
  }
  const std::string text = scaling::text_of(json_of(ended));
  const auto written = write(answer, text.data(), text.size());
  _exit(written < 0 ? 1 : 0);
}

}  // namespace

std::string reason_on(std::string_view line, const std::string& program, const std::string& deck) {
  constexpr std::size_t longest = 600;
  // A program of several commands, as gpt, is named with the one that trains.
  const std::string names[] = {program + ": ", program + " train: "};
  const auto* const name =
      std::ranges::find_if(names, [&](const std::string& one) { return line.starts_with(one); });
  if (name == std::end(names) || line.starts_with(*name + deck + " on ")) return {};
  line.remove_prefix(name->size());
  static const std::regex rank(R"(^rank \d+ of \d+ \([^)]*\): )");
  return std::regex_replace(std::string(line.substr(0, longest)), rank, "");
}

Keeper::Keeper(const Start& start) {
  std::array<int, 2> ends{-1, -1};
  if (pipe2(ends.data(), O_CLOEXEC) != 0)
    throw Error(std::string("cannot create a pipe: ") + std::strerror(errno));
  const pid_t parent = getpid();
  const HeldBackStopSignals held_back;
  pid_ = fork();
  if (pid_ == 0) keep(start, parent, ends[1], held_back);
  close(ends[1]);
  answer_ = ends[0];
  if (pid_ > 0) return;
  const std::string why = std::strerror(errno);
  close(answer_);
  throw Error("cannot start a process: " + why);
}

Keeper::~Keeper() {
  stop();
  if (pid_ > 0) waitpid(pid_, nullptr, 0);
  close(answer_);
}

void Keeper::stop() const noexcept {
  if (pid_ > 0) kill(pid_, SIGTERM);
}

std::optional<Ended> Keeper::ended() {
  int status = 0;
  if (pid_ <= 0 || waitpid(pid_, &status, WNOHANG) != pid_) return std::nullopt;
  pid_ = -1;
  std::string text;
  std::array<char, 4096> buffer{};
  for (ssize_t count = 0; (count = read(answer_, buffer.data(), buffer.size())) > 0;)
    text.append(buffer.data(), static_cast<std::size_t>(count));
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (json.is_object()) return ended_of(json);
  return Ended{.words = "the process that watched it was killed"};
}

}  // namespace lockstep::sweep
