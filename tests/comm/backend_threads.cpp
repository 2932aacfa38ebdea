#include <comm/backend.hpp>
#include <lockstep/comm/threads_group.hpp>
#include <support/rank_counts.hpp>

namespace lockstep::test {

bool share_memory(int /*a*/, int /*b*/) { return true; }

void on_every_group(const Claim& claim) { on_every_new_group(claim); }

void on_every_new_group(const Claim& claim, const GroupOptions& options) {
  for (const int ranks : counts_of_threads(5)) run_ranks_as_threads(ranks, claim, options);
}

}  // namespace lockstep::test
