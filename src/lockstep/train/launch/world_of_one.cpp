#include <cstdlib>
#include <optional>
#include <string>
#include <utility>

#include <lockstep/train/launch/checks.hpp>

namespace lockstep::train {
namespace {

std::optional<int> environment_number(const char* name) {
  const char* text = std::getenv(name);
  if (!text) return std::nullopt;
  char* end = nullptr;
  const long value = std::strtol(text, &end, 10);
  return end != text && *end == '\0' ? std::optional(static_cast<int>(value)) : std::nullopt;
}

struct Launcher {
  const char* variable;  ///< number of processes it started
  const char* name;
  const char* remedy;
};

// Launchers' variables only show that several processes were started, not which one this is.
constexpr Launcher launchers[] = {
    {"PMI_SIZE", "an mpiexec that speaks PMI", "Start with the mpiexec of that MPI"},
    {"OMPI_COMM_WORLD_SIZE", "Open MPI's mpiexec",
     "Start with the mpiexec of that MPI, or build with -DLOCKSTEP_MPI=openmpi"},
    {"SLURM_STEP_NUM_TASKS", "srun",
     "Start with srun --mpi=pmi2 (srun --mpi=list shows what this Slurm offers), or with the "
     "mpiexec of that MPI"},
};

/// The innermost launcher, and its number of processes: an mpiexec -n 1 within a step of several
/// tasks means this process to be alone.
std::optional<std::pair<Launcher, int>> nearest_launcher() {
  for (const Launcher& launcher : launchers) {
    if (const auto started = environment_number(launcher.variable)) return {{launcher, *started}};
  }
  return std::nullopt;
}

}  // namespace

int processes_started() {
  const auto nearest = nearest_launcher();
  return nearest ? nearest->second : 1;
}

Findings check_world_of_one(const Launch& launch, const std::string& mpi) {
  const auto nearest = nearest_launcher();
  if (launch.size() != 1 || !nearest || nearest->second == 1) return {};
  const auto& [launcher, started] = *nearest;
  return {{Finding::Severity::error, "world of one",
           "this process is alone in its MPI world, but " + std::string(launcher.name) +
               " started " + std::to_string(started) + " processes (" + launcher.variable + "=" +
               std::to_string(started) + "): each process would train on its own",
           std::string(launcher.remedy) + "; Lockstep runs on " + mpi + "."}};
}

}  // namespace lockstep::train
