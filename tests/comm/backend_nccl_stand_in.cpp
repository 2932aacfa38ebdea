// nccl over ranks that are threads, with a stand-in for NCCL and the GPUs: tensors of the claims'
// own lie on a device, all others on the host.
#include <comm/backend.hpp>
#include <comm/nccl/ranks.hpp>
#include <comm/tensors.hpp>

namespace lockstep::test {

bool share_memory(int /*a*/, int /*b*/) { return true; }

void on_every_group(const Claim& claim) { on_every_new_group(claim); }

void on_every_new_group(const Claim& claim, const GroupOptions& options) {
  for (const int ranks : {1, 2, 5}) {
    const auto gpus = std::make_shared<StandIn>();
    device_memory = {
        .make = [&gpus](int rank,
                        std::int64_t bytes) { return gpus->tensor(rank, {bytes}, DType::u8); },
        .read = [&gpus](const Tensor& t, void* to) { gpus->read(t, to); },
        .write = [&gpus](const Tensor& t, const void* from) { gpus->write(t, from); }};
    on_ranks(
        ranks, [&](ProcessGroup& group, StandIn&) { claim(group); }, options, gpus);
    device_memory = {};
  }
}

}  // namespace lockstep::test
