#pragma once
#include <cstdlib>
#include <functional>
#include <string_view>

#include <lockstep/comm/group_options.hpp>
#include <lockstep/comm/process_group.hpp>

namespace lockstep::test {

using Claim = std::function<void(ProcessGroup&)>;

/// Whether a rank can see which calls another has entered.
[[nodiscard]] bool share_memory(int a, int b);

/// LOCKSTEP_TEST_PROGRESS=thread: the engine's thread moves every group on.
inline Progress asked_for_progress() {
  const char* text = std::getenv("LOCKSTEP_TEST_PROGRESS");
  return text && std::string_view(text) == "thread" ? Progress::thread : Progress::poll;
}

/// No claim is about how long a wait may last; ranks that share a busy core are slow.
inline const GroupOptions usual_options{.timeout = std::chrono::seconds(60),
                                        .progress = asked_for_progress()};

/// Runs `claim` on every rank of the backend that this program was linked with: mpi over all ranks
/// that mpiexec started, threads in groups of 1, 2, 3, 4 and 5. The claim leaves the group open and
/// idle: the next one may get it too.
void on_every_group(const Claim& claim);

/// The same on a new group, for tests that need their own options, and for those that close or
/// break their group.
void on_every_new_group(const Claim& claim, const GroupOptions& options = usual_options);

}  // namespace lockstep::test
