#include <lockstep/comm/mpi/launcher.hpp>

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <string_view>

#include <lockstep/base/process_state.hpp>

namespace lockstep {
namespace {

namespace fs = std::filesystem;

/// The rank that a launcher has set in the environment of a process. The first variable counts:
/// under Slurm an mpiexec is itself task 0.
std::optional<int> rank_of(int pid) {
  constexpr std::array<std::string_view, 3> names = {
      "PMI_RANK=", "OMPI_COMM_WORLD_RANK=", "SLURM_PROCID="};
  std::ifstream file(fmt::format("/proc/{}/environ", pid));
  std::optional<int> rank;
  std::size_t best = names.size();
  for (std::string variable; std::getline(file, variable, '\0');) {
    for (std::size_t i = 0; i < best; ++i) {
      if (!variable.starts_with(names[i])) continue;
      rank = std::atoi(variable.c_str() + names[i].size());
      best = i;
    }
  }
  return rank;
}

int parent_of(int pid) {
  std::ifstream file(fmt::format("/proc/{}/status", pid));
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("PPid:")) return std::atoi(line.c_str() + 5);
  }
  return 0;
}

/// The nearest ancestor that does not belong to the rank: a script may have started the rank.
int launcher_of(int pid, int rank) {
  do {
    pid = parent_of(pid);
  } while (pid > 1 && rank_of(pid) == rank);
  return pid;
}

bool stands(ProcessState state) {
  return state == ProcessState::stopped || state == ProcessState::traced ||
         state == ProcessState::waiting_for_disk;
}

}  // namespace

std::string standing_ranks_here() {
  const auto mine = rank_of(::getpid());
  if (!mine) return "";
  const int launcher = launcher_of(::getpid(), *mine);
  std::map<int, std::string> standing;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator("/proc", ignored)) {
    const std::string name = entry.path().filename();
    int pid = 0;
    if (std::from_chars(name.data(), name.data() + name.size(), pid).ec != std::errc()) continue;
    const ProcessState state = process_state(pid);
    const auto rank = stands(state) ? rank_of(pid) : std::nullopt;
    if (!rank || rank == mine || launcher_of(pid, *rank) != launcher) continue;
    standing[*rank] = fmt::format("rank {} (process {}) {}", *rank, pid, words(state));
  }
  std::string all;
  for (const auto& [rank, text] : standing) all += (all.empty() ? "" : ", ") + text;
  return all;
}

void ask_launcher_to_end_job(ExitCode code) noexcept {
  const char* const pmi = std::getenv("PMI_FD");
  if (!pmi || std::getenv("PMI_JOBID")) return;  // Slurm's PMI-2
  const int connection = std::atoi(pmi);
  struct stat info {};
  if (::fstat(connection, &info) != 0 || !S_ISSOCK(info.st_mode)) return;  // MPI_Finalize closed it
  std::array<char, 64> words{};
  const int length =
      std::snprintf(words.data(), words.size(), "cmd=abort exitcode=%d\n", static_cast<int>(code));
  static_cast<void>(!::write(connection, words.data(), static_cast<std::size_t>(length)));
}

void wait_until_stderr_is_read() noexcept {
  struct stat info {};
  if (::fstat(STDERR_FILENO, &info) != 0 || !S_ISFIFO(info.st_mode)) return;
  constexpr int most_ms = 2000;
  int unread = 0;
  for (int ms = 0; ms < most_ms; ++ms) {
    if (::ioctl(STDERR_FILENO, FIONREAD, &unread) != 0 || unread == 0) return;
    ::usleep(1000);
  }
}

}  // namespace lockstep
