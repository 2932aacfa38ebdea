#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <support/process.hpp>

namespace lockstep::test {
namespace {

std::string environment_value(const char* name) {
  const char* value = std::getenv(name);
  if (!value)
    throw std::runtime_error(std::string(name) + " is not set: run this test through ctest");
  return value;
}

using Environment = std::vector<std::pair<std::string, std::string>>;

[[noreturn]] void become(const std::vector<std::string>& command, const Environment& environment) {
  for (const auto& [name, value] : environment) setenv(name.c_str(), value.c_str(), 1);
  std::vector<char*> arguments;
  for (const auto& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  execvp(arguments[0], arguments.data());
  _exit(127);
}

/// Reads the output of a process group's leader, to its end or to the group's at the limit.
Finished follow(pid_t child, int output, double limit_s) {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  const auto elapsed = [&] { return std::chrono::duration<double>(Clock::now() - start).count(); };
  Finished result;
  bool late = false;
  std::array<char, 4096> buffer{};
  for (;;) {
    pollfd readable{output, POLLIN, 0};
    if (poll(&readable, 1, 100) > 0) {
      const auto count = read(output, buffer.data(), buffer.size());
      if (count <= 0) break;  // a terminal closed by all processes is an error, not an end
      result.output.append(buffer.data(), static_cast<std::size_t>(count));
    } else if (!late && elapsed() > limit_s) {
      late = true;
      kill(-child, SIGKILL);
    }
  }
  close(output);
  int status = 0;
  waitpid(child, &status, 0);
  result.seconds = elapsed();
  result.exit_code = late ? 124 : WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return result;
}

}  // namespace

Finished run(const std::vector<std::string>& command, const Environment& environment,
             double limit_s) {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) throw std::runtime_error("pipe failed");
  const pid_t child = fork();
  if (child < 0) throw std::runtime_error("fork failed");
  if (child == 0) {
    setpgid(0, 0);
    dup2(ends[1], STDOUT_FILENO);
    dup2(ends[1], STDERR_FILENO);
    const int input = open("/dev/null", O_RDONLY);
    dup2(input, STDIN_FILENO);
    become(command, environment);
  }
  close(ends[1]);
  return follow(child, ends[0], limit_s);
}

Finished run_on_terminal(const std::vector<std::string>& command, int columns, double limit_s) {
  winsize size{};
  size.ws_row = 24;
  size.ws_col = static_cast<unsigned short>(columns);
  int screen = -1;
  const pid_t child = forkpty(&screen, nullptr, nullptr, &size);  // leads a session, and so a group
  if (child < 0) throw std::runtime_error("forkpty failed");
  if (child == 0) become(command, {});
  return follow(child, screen, limit_s);
}

std::vector<std::string> app(int ranks, const std::string& name,
                             const std::vector<std::string>& arguments) {
  std::vector<std::string> command;
  std::istringstream launcher(
      environment_value("LOCKSTEP_LAUNCHER"));  // mpiexec and its flags, up to -n
  for (std::string word; launcher >> word;) command.push_back(word);
  command.push_back(std::to_string(ranks));
  command.push_back(built(name));
  command.insert(command.end(), arguments.begin(), arguments.end());
  return command;
}

std::string quoted(const std::vector<std::string>& command) {
  std::string line;
  for (const std::string& word : command) {
    std::string escaped;
    for (const char c : word) escaped += c == '\'' ? "'\\''" : std::string(1, c);
    line += "'" + escaped + "' ";
  }
  return line;
}

std::string source(const std::string& path) {
  return environment_value("LOCKSTEP_SOURCE_DIR") + "/" + path;
}
std::string built(const std::string& path) {
  return environment_value("LOCKSTEP_BINARY_DIR") + "/" + path;
}

ScratchFolder::ScratchFolder() {
  std::string name = (std::filesystem::temp_directory_path() / "lockstep-test-XXXXXX").string();
  if (!mkdtemp(name.data())) throw std::runtime_error("cannot make a folder like " + name);
  path_ = name;
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string ScratchFolder::write(const std::string& name, const std::string& text) const {
  std::filesystem::create_directories(std::filesystem::path(file(name)).parent_path());
  std::ofstream out(file(name), std::ios::binary);
  out << text;
  if (!out.flush()) throw std::runtime_error("cannot write " + file(name));
  return file(name);
}

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw std::runtime_error("cannot read " + path);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

std::string read_of_process(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

double seconds_since_written(const std::string& path) {
  const auto ago =
      std::filesystem::file_time_type::clock::now() - std::filesystem::last_write_time(path);
  return std::chrono::duration<double>(ago).count();
}

}  // namespace lockstep::test
