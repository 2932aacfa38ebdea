#pragma once
#include <string>

#include "options.hpp"

namespace lockstep::sweep {

/// A job script for Slurm: an array job in which the index is the trial, with --only; or with
/// --halving, whose trials wait for each other, one allocation for all.
[[nodiscard]] std::string job_script(const Options& options, std::size_t trials, int threads);

}  // namespace lockstep::sweep
