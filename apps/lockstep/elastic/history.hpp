#pragma once
// elastic.jsonl in the run folder, and the same events as text on stderr.
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "launcher.hpp"
#include "placement.hpp"

namespace lockstep::elastic {

/// Why a start, or the supervisor, ended.
enum class Why : std::uint8_t {
  completed,
  stopped,     ///< stopped on request; saved
  members,     ///< stopped for a planned change; saved
  killed,      ///< a rank ended by a signal, or without a message
  no_answer,   ///< a rank did not answer, or a message did not arrive (exit code 3)
  hung,        ///< no sign of life
  unheeded,    ///< it was asked to save and end, and did not
  host_lost,   ///< a host does not answer
  memory,      ///< out of memory
  failure,     ///< exit code 1
  input,       ///< exit code 2
  checkpoint,  ///< exit code 4
  budget,      ///< no restarts are left
  too_few,     ///< too few slots for too long
};
/// "completed", "no answer" ...
[[nodiscard]] const char* words(Why why) noexcept;

/// How a start ended.
struct Ending {
  Why why = Why::killed;
  int code = 0;            ///< exit code of the launcher
  std::vector<int> ranks;  ///< blamed ranks
  std::vector<std::string> hosts;
  std::string text;       ///< a sentence with the reason
  double seconds = 0;     ///< from start to end
  std::int64_t step = 0;  ///< newest known step
};

/// Writes each event as a line of JSON in elastic.jsonl and a line on stderr. Lines of the first
/// start are kept back until it has opened the run folder: it may move an older one aside first.
class History {
 public:
  explicit History(std::filesystem::path dir);

  /// `lost_steps`: steps of the start before that are computed again.
  void start(int number, const Placement& placement, const std::filesystem::path& from,
             std::int64_t step, std::int64_t lost_steps, double down_s);
  void end(int number, const Placement& placement, const Ending& ending);
  /// An action of the supervisor: "waits", "restarts in", "saves". Without `kind` the file gets no
  /// line.
  void note(const std::string& text, const std::string& kind = "");
  void over(Why why, int code, const std::string& text);

  /// The run folder now belongs to this run: lines may be written there.
  void folder_is_there();

 private:
  void say(const std::string& text) const;
  void write(nlohmann::ordered_json line);
  void flush();

  std::filesystem::path file_;
  std::vector<std::string> kept_;
  bool folder_is_there_ = false, complained_ = false;
};

}  // namespace lockstep::elastic
