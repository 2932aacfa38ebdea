#include <lockstep/parallel/gradient_sum.hpp>

#include <lockstep/base/error.hpp>
#include <lockstep/parallel/ddp_options.hpp>
#include <lockstep/parallel/sharded_gradient_sum.hpp>

namespace lockstep {

std::unique_ptr<GradientSum> make_gradient_sum(std::shared_ptr<ProcessGroup> group,
                                               const DdpOptions& options,
                                               std::shared_ptr<CommHook> hook,
                                               std::vector<Tensor> buffers, Device device) {
  if (options.shards == 0) {
    if (!hook) hook = make_comm_hook(options);
    return std::make_unique<GradientSum>(std::move(group), std::move(hook));
  }
  if (hook) throw InputError("sums over shards do not support a communication hook of your own");
  return std::make_unique<ShardedGradientSum>(std::move(group), options.shards, std::move(buffers),
                                              device);
}

}  // namespace lockstep
