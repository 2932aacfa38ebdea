#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include <lockstep/base/error.hpp>

#include "halving.hpp"
#include "options.hpp"
#include "search.hpp"

namespace lockstep::sweep {

/// Deck and trials of a sweep, as their program reads them.
struct Assignment {
  std::string deck_hash;         ///< of the deck with --set, without the varied keys
  std::string program;           ///< its path
  std::vector<Settings> trials;  ///< no two of them the same
  std::size_t given = 0;         ///< number of trials before the same ones became one
  std::string metric;
  Better better = Better::smaller;
  std::int64_t epochs = 0;  ///< of the whole training
  int threads = 1;          ///< cores of a rank
};

/// Runs a sweep, or the rest of it, prints its table and writes sweep.json; with --dry-run or
/// --script prints its commands. docs/guide/sweep.md. A plain process of one thread, which
/// never enters MPI. Throws InputError for trials that cannot run, or a folder of another
/// sweep.
[[nodiscard]] ExitCode run_sweep(const Options& options, Assignment assignment);

}  // namespace lockstep::sweep
