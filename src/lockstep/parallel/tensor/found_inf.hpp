#pragma once
#include <lockstep/parallel/collectives.hpp>

namespace lockstep {
namespace optim {
class GradScaler;
class Optimizer;
}  // namespace optim

/// Makes the scalers of ranks that share out a model's tensors skip the same steps: if the
/// gradients of one rank's parts are not finite, no rank updates. Call it between
/// GradScaler::unscale() and step().
///   scaler.unscale(optimizer);
///   agree_on_found_inf(scaler, optimizer, group);
///   scaler.step(optimizer);
///   scaler.update();
/// One all_reduce of one number where the parameters are, behind the current stream: the host does
/// not wait for a device. PyTorch's ShardedGradScaler. Collective. Throws Error, before that, if
/// the gradients are not unscaled, and InputError for a null group.
void agree_on_found_inf(optim::GradScaler& scaler, const optim::Optimizer& optimizer,
                        const GroupPtr& group);

}  // namespace lockstep
