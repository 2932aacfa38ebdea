#pragma once
// Measures the change that is predicted to help most.
#include <optional>
#include <string>

#include "options.hpp"

namespace lockstep::scaling {

struct Trial {
  std::string change;    ///< as the prediction names it
  int ranks = 1;         ///< the largest measured size with cores of its own
  double predicted = 0;  ///< gain there
  Options options;       ///< a study of that size alone, in a folder within that of the first
};

/// From the scaling.json of a study with a prediction: its best change that a deck can make.
/// Nothing, and a sentence on stdout, if none is predicted to help at a measured size. Throws
/// InputError.
[[nodiscard]] std::optional<Trial> best_trial(const Options& options);

/// Once the trial is measured: adds it to the first study's scaling.json, as "tried" of its
/// prediction. Returns a line with both gains. Throws InputError, FileError.
[[nodiscard]] std::string note_trial(const Options& options, const Trial& trial);

}  // namespace lockstep::scaling
