#include <lockstep/comm/mpi/launcher.hpp>

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <optional>
#include <string>

#include <lockstep/base/process_state.hpp>

namespace lockstep {
namespace {

/// The rank that a launcher has set in the environment of a process. The first variable counts:
/// under Slurm an mpiexec is itself task 0.
std::optional<int> rank_of(int pid) {
  for (const char* name : {"PMI_RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID"}) {
    const std::string rank = variable_of(pid, name);
    if (!rank.empty()) return std::atoi(rank.c_str());
  }
  return std::nullopt;
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
  for_each_process([&](int pid) {
    const ProcessState state = process_state(pid);
    const auto rank = stands(state) ? rank_of(pid) : std::nullopt;
    if (!rank || rank == mine || launcher_of(pid, *rank) != launcher) return;
    standing[*rank] = fmt::format("rank {} (process {}) {}", *rank, pid, words(state));
  });
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
