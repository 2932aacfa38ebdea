#pragma once
#include <string>
#include <vector>

#include <lockstep/base/error.hpp>

#include "identity.hpp"
#include "model/gradient_plan.hpp"
#include "options.hpp"

namespace lockstep::scaling {

/// What is measured: the deck as its program reads it.
struct Assignment {
  Identity identity;
  std::vector<std::string> program;               ///< words up to the deck, that one included
  std::int64_t bucket_bytes = 0, accumulate = 1;  ///< of the deck
  Rehearse rehearse;                              ///< for predictions
};

/// Makes a study, or the rest of it, prints its table, and writes scaling.json and scaling.svg;
/// with --dry-run or --script prints what it would do. docs/guide/scaling.md. A plain process,
/// which never enters MPI. With Options::predict, fit or try_best also predicts, by
/// Assignment::rehearse. Throws InputError for a study that cannot be measured, or compared with
/// the folder's.
[[nodiscard]] ExitCode run_study(const Options& options, Assignment assignment);

}  // namespace lockstep::scaling
