// nccl over ranks that are threads, with a stand-in for NCCL: tensors of the claims' own lie on
// simulated devices, all others on the host.
#include <comm/backend.hpp>
#include <comm/nccl/ranks.hpp>
#include <comm/tensors.hpp>

namespace lockstep::test {

bool share_memory(int /*a*/, int /*b*/) { return true; }

void on_every_group(const Claim& claim) { on_every_new_group(claim); }

void on_every_new_group(const Claim& claim, const GroupOptions& options) {
  device_memory = simulated_memory();
  for (const int ranks : {1, 2, 5}) {
    on_ranks(
        ranks, [&](ProcessGroup& group, StandIn&) { claim(group); }, options);
  }
}

}  // namespace lockstep::test
