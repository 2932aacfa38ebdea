#pragma once
// Observes a run from outside: its folder, and its ranks' processes on this machine.
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <lockstep/comm/flight/ring.hpp>

namespace lockstep::elastic {

/// A rank that runs on this machine.
struct RankProcess {
  int rank = -1, pid = 0;
  std::filesystem::path ring{};
};

/// Observes one run folder over all starts.
class RunView {
 public:
  /// `own_loop`: of a program that tells of itself in program.json (train::ElasticReport), or not
  /// at all; else of one that has the run folder `dir`.
  explicit RunView(std::filesystem::path dir, bool own_loop = false);

  /// To be called when a start begins: files that exist now are not its own.
  void begin();
  /// To be called when a start is over. Removes its lock on the folder: on another machine the next
  /// start could not know that the lock's owner is dead. A lock from before this start stays. Not
  /// for a start that was refused: it holds no lock, and one that appeared meanwhile is another
  /// run's.
  void release() const;
  /// Whether there was a sign of life since the last call: a line in metrics.jsonl or log.txt, a
  /// change in checkpoints/, or, on this machine, a rank that has entered or completed a collective
  /// or a message. The heartbeat of a lock does not count: a hung run has it too.
  bool shows_life();

  /// Whether this start's ranks are up, have opened the run folder and can handle a stop request.
  /// Rank 0 stands for the ranks on other machines.
  [[nodiscard]] bool is_up() const;
  [[nodiscard]] bool is_own_loop() const noexcept { return own_loop_; }
  /// Of a program with its own loop: it has told of itself, in this start or in an earlier one.
  [[nodiscard]] bool has_spoken() const;
  /// Where its checkpoints are is known.
  [[nodiscard]] bool knows_checkpoints() const { return !checkpoints().empty(); }
  /// This start has shown a step or a checkpoint.
  [[nodiscard]] bool has_stepped() const;
  /// Whether this start has written a checkpoint, to the run folder or to this machine's memory.
  [[nodiscard]] bool has_saved() const;
  /// What this start's summary.json says, or program.json.
  [[nodiscard]] bool completed() const { return summary_says("completed"); }
  [[nodiscard]] bool stopped_early() const { return summary_says("stopped_early"); }
  /// Newest step that is known of: in metrics.jsonl or program.json, or of a checkpoint. 0: none.
  [[nodiscard]] std::int64_t step() const;
  /// Newest checkpoint by name, unverified; empty if there is none.
  [[nodiscard]] std::filesystem::path checkpoint() const;
  [[nodiscard]] std::int64_t checkpoint_step() const;

  /// Ranks known so far; all of them one scan after is_up().
  [[nodiscard]] const std::vector<RankProcess>& ranks() const noexcept { return ranks_; }
  /// All rings that can be read here, by rank. Rings in the node's memory are moved into the run
  /// folder if their processes are gone.
  [[nodiscard]] std::vector<FlightRing> take_rings() const;

  [[nodiscard]] const std::filesystem::path& dir() const noexcept { return dir_; }

 private:
  /// A file's identity and version, from its metadata.
  struct Stamp {
    std::uint64_t inode = 0, size = 0;
    std::int64_t changed_ns = 0;
    bool operator==(const Stamp&) const = default;
  };
  static Stamp stamp(const std::filesystem::path& file);
  [[nodiscard]] std::map<std::string, Stamp> stamps() const;
  [[nodiscard]] bool summary_says(const char* key) const;
  /// Their folder; empty: nobody has told.
  [[nodiscard]] std::filesystem::path checkpoints() const;
  void find_ranks();
  bool ranks_moved();

  std::filesystem::path dir_;
  bool own_loop_;
  const char *start_file_, *summary_file_;  ///< whose change says that a start is up, and its end
  std::uint64_t job_ = 0, earlier_job_ = 0;
  std::string rings_;
  std::vector<RankProcess> ranks_;
  bool knows_all_ranks_ = false;
  std::map<int, std::uint64_t> calls_;  ///< by rank: progress of its ring
  std::map<std::string, Stamp> seen_, earlier_;
  Stamp earlier_summary_, earlier_start_;
  std::string earlier_lock_;
  std::int64_t earlier_step_ = 0;
};

}  // namespace lockstep::elastic
