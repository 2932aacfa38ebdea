#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include <lockstep/base/failure.hpp>

namespace lockstep::train {

/// Contents of a run folder's flight/. During the run, `where`: the job's number and each node's
/// folder with its ranks' rings. After a failure also rings (rank-3.ring) and, if ranks waited for
/// each other in vain, verdict.txt.

/// Empties RUN_DIR/flight/ and writes `where`. For rank 0, when a run begins.
void note_flight(const std::filesystem::path& run_dir);
/// Contents of `where`.
struct RingsOfJob {
  std::uint64_t job = 0;
  std::string folder;  ///< folders of the nodes
};
/// Nothing if `flight`, the folder, has no such file, or the file cannot be parsed. Local.
[[nodiscard]] std::optional<RingsOfJob> read_where(const std::filesystem::path& flight);
/// Removes it, after a run that ended well.
void forget_flight(const std::filesystem::path& run_dir) noexcept;

/// For a rank that gives up without the others' knowledge, before it ends the job. Copies its ring,
/// and those of stopped and dead ranks of its node, to RUN_DIR/flight/. After a failed
/// communication it also waits for at most a second for the other ranks to do the same. Then only
/// the lowest of them calls `complain`, with the verdict over all rings, and writes it to
/// verdict.txt. After any other failure every rank complains at once.
void give_up(const std::filesystem::path& run_dir, const Failure& failure,
             const std::function<void(const std::string&)>& complain);

}  // namespace lockstep::train
