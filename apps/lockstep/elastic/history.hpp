#pragma once
// elastic.jsonl in the run folder, and the same for people.
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "launcher.hpp"
#include "placement.hpp"

namespace lockstep::elastic {

/// Why a start ended, or the supervisor.
enum class Why : std::uint8_t {
  completed,
  stopped,     ///< somebody asked for it; saved
  members,     ///< a planned change; saved
  killed,      ///< a rank ended by a signal, or without a word
  no_answer,   ///< a rank did not answer, or a message did not come (exit code 3)
  hung,        ///< no sign of life
  unheeded,    ///< it was asked to save and end, and did not
  host_lost,   ///< a host does not answer
  memory,      ///< out of it
  failure,     ///< exit code 1
  input,       ///< 2
  checkpoint,  ///< 4
  budget,      ///< no restarts are left
  too_few,     ///< slots, for too long
};
/// "completed", "no answer" ...
[[nodiscard]] const char* words(Why why) noexcept;

/// How a start ended.
struct Ending {
  Why why = Why::killed;
  int code = 0;            ///< of the launcher
  std::vector<int> ranks;  ///< to blame
  std::vector<std::string> hosts;
  std::string text;       ///< a sentence about it
  double seconds = 0;     ///< from start to end
  std::int64_t step = 0;  ///< newest that is known of
};

/// Each event: a line of JSON in elastic.jsonl and a line on stderr. What the first start says
/// is kept back until it has the run folder, which it may have to move aside before.
class History {
 public:
  explicit History(std::filesystem::path dir);

  /// `lost_steps` of the start before are computed again.
  void start(int number, const Placement& placement, const std::filesystem::path& from,
             std::int64_t step, std::int64_t lost_steps, double down_s);
  void end(int number, const Placement& placement, const Ending& ending);
  /// Something that is being done about it: "waits", "restarts in", "saves"; no line in the file
  /// without `kind`.
  void note(const std::string& text, const std::string& kind = "");
  void over(Why why, int code, const std::string& text);

  /// The run folder is this run's: lines may be written there.
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
