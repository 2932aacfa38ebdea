#pragma once
// A trial: its settings, its record, and the results in its run folder.
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "halving.hpp"
#include "scaling/json.hpp"
#include "search.hpp"

namespace lockstep::sweep {

using scaling::Json;

struct Trial {
  int index = 0;
  Settings settings;
  std::vector<double> rungs;  ///< the metric at the end of each rung that it has finished
  bool whole = false;         ///< trained to the deck's end
  std::string failed;         ///< the reason; empty: it has not
  bool tried_again = false;   ///< by the next command: the reason may be the machine's
  std::string stopped;        ///< the reason; empty: it was not
  std::int64_t epochs = 0, steps = 0;
  double seconds = 0;  ///< of all its starts

  /// "trial-0003": of its run folder, and of its folder of records.
  [[nodiscard]] std::string name() const;
  [[nodiscard]] std::optional<double> metric() const {
    return rungs.empty() || !failed.empty() ? std::nullopt : std::optional(rungs.back());
  }
  /// Without index and settings, which are the sweep's.
  [[nodiscard]] Json json() const;
  /// Reads the result of json(); throws nlohmann's exceptions for anything else.
  void take(const Json& json);
};

/// Results in a run's summary.json.
struct Seen {
  bool completed = false;
  std::int64_t epochs = 0, steps = 0;
  int ranks = 0;
  double seconds = 0;
  std::string stopped_by;
  std::optional<double> metric;      ///< if it is finite
  bool has_metric = false;           ///< the summary names it
  std::vector<std::string> figures;  ///< names of its losses and metrics that are numbers

  /// Whether a rung of that budget is over.
  [[nodiscard]] bool has_reached(const Rung& rung, Halving::Unit unit) const noexcept;
};
/// Nothing if there is no such file, or no whole one.
[[nodiscard]] std::optional<Seen> look_at(const std::filesystem::path& run_folder,
                                          const std::string& metric);

/// How a start of a trial ended, as far as its launcher tells.
struct Ended {
  int code = -1;
  bool was_stopped = false;  ///< by the sweep
  std::string sentence;      ///< the program's own reason
  int signal = 0;            ///< that ended a rank
  bool out_of_memory = false;
  std::string words;  ///< the first that was said
};

/// Enters the end of a start into `trial`.
void enter(Trial& trial, const std::optional<Seen>& seen, const Ended& ended, const Rung& rung,
           Halving::Unit unit, const std::string& metric, int ranks);

}  // namespace lockstep::sweep
