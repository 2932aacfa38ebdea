#pragma once
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <lockstep/nn/module.hpp>
#include <lockstep/parallel/tensor/parallel_style.hpp>

namespace lockstep {

/// Which modules are shared out, and how: patterns of their dotted names (nn/name_pattern.hpp; ""
/// is the model itself) with a style each.
using ParallelPlan = std::vector<std::pair<std::string, std::shared_ptr<const ParallelStyle>>>;

/// Tensor parallelism, as PyTorch's function of this name: the ranks of `group` share out the
/// modules of `model` that `plan` names.
///   parallelize_module(*model, mesh.group("tp"),
///                      {{"fc1", std::make_shared<ColwiseParallel>()},
///                       {"fc2", std::make_shared<RowwiseParallel>()}});
/// From then on all ranks of the group call the model on the same samples and run backward
/// together. They have the same loss and the undivided model's gradients: of a divided parameter
/// this rank's slab, which state_dict() tells by its Placement, of others the whole, with the same
/// bits on all ranks. optim::Optimizer updates slabs as it does parameters, unless its formula
/// looks at whole tensors, as LARS and LAMB do; norms of gradients: tensor_parallel_clip_grad_norm.
///
/// The model is rank 0's: its parameters and buffers are broadcast, so a seed gives the weights
/// that the undivided model has. Each rank holds the undivided model until this returns. All
/// Dropout layers draw the masks that rank 0 would draw for the undivided model, slabs of it where
/// activations are divided; so do ranks under a RandomContextGuard with equal contexts.
///
/// Call it before an optimizer or DistributedDataParallel gets the parameters. `group` must stay
/// open. Collective. Throws InputError on every rank alike: if the models or plans differ, for a
/// pattern that fits no module, a module that two patterns fit, a style that does not fit its
/// module, sizes that cannot be dealt out, or a tied parameter that is not divided under each name.
void parallelize_module(nn::Module& model, const GroupPtr& group, const ParallelPlan& plan);

}  // namespace lockstep
