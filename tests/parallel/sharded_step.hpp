#pragma once
#include <string>

#include <lockstep/optim/optimizer.hpp>
#include <lockstep/parallel/sharded/fully_shard.hpp>

#include "stack_model.hpp"

namespace lockstep::test {

inline Batch share_of(const Batch& batch, const ProcessGroup& group) {
  return batch.share(group.rank(), group.size());
}

inline std::string bytes_of(const Tensor& tensor) {
  const Tensor here = tensor.to(Device{});
  return {static_cast<const char*>(here.data()), here.bytes()};
}

/// One step on this rank's share.
inline void step(FullyShardedDataParallel& fsdp, optim::Optimizer& optimizer, const Batch& batch) {
  const Batch share = share_of(batch, fsdp.group());
  fsdp.zero_grad();
  fsdp.backward(loss_of_share(fsdp, share), weight_of(share, batch));
  optimizer.step();
}

}  // namespace lockstep::test
