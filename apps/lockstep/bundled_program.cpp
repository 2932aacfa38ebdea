#include "bundled_program.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include <lockstep/base/error.hpp>
#include <lockstep/base/host.hpp>

#include "elastic/find_program.hpp"

namespace lockstep::utility {

std::string bundled_program(const DataOptions& data) {
  const char* name = "classify";
  if (target_kind(data) == TargetKind::values) name = "regress";
  if (target_kind(data) == TargetKind::tokens) name = "gpt";
  const std::filesystem::path program = elastic::program_beside(name);
  if (!elastic::can_run(program)) {
    throw InputError(
        fmt::format("there is no program {} beside lockstep: name one with --program", name));
  }
  return program.string();
}

int cores_a_rank(int given, const train::RunPlan& plan) {
  if (given > 0) return given;
  if (plan.run.threads > 0) return static_cast<int>(plan.run.threads);
  return std::max(1, std::atoi(environment("SLURM_CPUS_PER_TASK").c_str()));
}

}  // namespace lockstep::utility
