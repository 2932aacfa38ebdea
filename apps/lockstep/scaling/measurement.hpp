#pragma once
// One point of a study, started, watched and read.
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "analysis.hpp"
#include "elastic/launcher.hpp"
#include "identity.hpp"

namespace lockstep::scaling {

/// How a command ended.
struct Ended {
  int code = -1;
  bool was_stopped = false;  ///< the user stops the study
  bool was_late = false;     ///< it took longer than it may
  std::string words;         ///< the first that it said
};

/// Runs a command until it ends, `limit_s` is over, or `stops` is true. `look` is called some
/// twenty times a second. Nothing of the command is left behind.
[[nodiscard]] Ended run_command(const elastic::Launcher::Command& command, double limit_s,
                                const std::function<bool()>& stops,
                                const std::function<void()>& look);

/// Asks a run to stop, by a file in its folder, once it has measured `steps` after its warm-up.
class StepLimit {
 public:
  StepLimit(std::filesystem::path run_folder, std::int64_t warmup, std::int64_t steps)
      : folder_(std::move(run_folder)), warmup_(warmup), steps_(steps) {}
  void look();

 private:
  std::filesystem::path folder_;
  std::int64_t warmup_, steps_;
  std::uintmax_t seen_ = 0;  ///< bytes of metrics.jsonl
  bool asked_ = false;
};

/// What the run in `folder` measured, or in `failed` why that is not enough.
[[nodiscard]] Result read_run(Result result, const std::filesystem::path& folder,
                              const Identity& identity, const Ended& ended);

}  // namespace lockstep::scaling
