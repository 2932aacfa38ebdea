#pragma once
// Properties of a deck that commands which start trainings need.
#include <string>

#include <lockstep/data/data_options.hpp>
#include <lockstep/train/run/run_plan.hpp>

namespace lockstep::utility {

/// The program that trains such decks, beside this one. Throws InputError if it is not there.
[[nodiscard]] std::string bundled_program(const DataOptions& data);

/// Cores of a rank: `given` if not 0, else the deck's run.threads, else Slurm's for a task, else 1.
[[nodiscard]] int cores_a_rank(int given, const train::RunPlan& plan);

}  // namespace lockstep::utility
