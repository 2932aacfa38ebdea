#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include <lockstep/base/failure.hpp>

namespace lockstep::train {

/// What a run folder's flight/ holds: while the run goes, `where`: the job's number and the folder
/// of each node where its ranks' rings lie; after a failure also rings (rank-3.ring) and, where
/// ranks waited for each other in vain, verdict.txt.

/// Empties RUN_DIR/flight/ and notes where the rings are. Of rank 0, when a run begins.
void note_flight(const std::filesystem::path& run_dir);
/// What `where` says.
struct RingsOfJob {
  std::uint64_t job = 0;
  std::string folder;  ///< of each node
};
/// Nothing if there is no such file in `flight`, the folder, or it cannot be understood. Local.
[[nodiscard]] std::optional<RingsOfJob> read_where(const std::filesystem::path& flight);
/// Removes it: the run has ended well.
void forget_flight(const std::filesystem::path& run_dir) noexcept;

/// For a rank that gives up where the others cannot know, before it ends the job. Copies its ring,
/// and those of stopped and dead ranks of its node, to RUN_DIR/flight/. After a failed
/// communication it also waits a second at most for the other ranks to do the same; then the lowest
/// of them alone calls `complain`, with the verdict over all rings, and writes it to verdict.txt.
/// After any other failure every rank complains at once.
void give_up(const std::filesystem::path& run_dir, const Failure& failure,
             const std::function<void(const std::string&)>& complain);

}  // namespace lockstep::train
