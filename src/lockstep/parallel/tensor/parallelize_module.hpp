#pragma once
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <lockstep/nn/module.hpp>
#include <lockstep/parallel/tensor/parallel_style.hpp>

namespace lockstep {

/// A style for each pattern of dotted module names (nn/name_pattern.hpp; "" is the model itself).
using ParallelPlan = std::vector<std::pair<std::string, std::shared_ptr<const ParallelStyle>>>;

/// Tensor parallelism, as PyTorch's function of this name: the ranks of `group` share out the
/// modules of `model` that `plan` names.
///   parallelize_module(*model, mesh.group("tp"),
///                      {{"fc1", std::make_shared<ColwiseParallel>()},
///                       {"fc2", std::make_shared<RowwiseParallel>()}});
/// From then on all ranks of the group call the model on the same samples and run backward
/// together. They have the same loss and the undivided model's gradients: of a divided parameter
/// this rank's slab (its Placement is in state_dict()), of others the whole, with the same bits on
/// all ranks. optim::Optimizer updates slabs as it does parameters, unless its formula looks at
/// whole tensors, as LARS and LAMB do: their take_placements() throws InputError. Norms of
/// gradients: TensorParallelGradNorm.
///
/// The model is rank 0's: its parameters and buffers are broadcast, so a seed gives the undivided
/// model's weights. Each rank holds the undivided model until this returns. All Dropout layers draw
/// the masks that rank 0 would draw for the undivided model, slabs of it where activations are
/// divided; so do ranks under a RandomContextGuard with equal contexts.
///
/// Call it before an optimizer or DistributedDataParallel gets the parameters. `group` must stay
/// open. Collective. Throws InputError on every rank alike if the models or plans differ, and for a
/// pattern without a module, a module of two patterns, a style that does not fit its module, sizes
/// that cannot be divided, or a tied parameter that is not divided under each name. The model is
/// then unusable.
void parallelize_module(nn::Module& model, const GroupPtr& group, const ParallelPlan& plan);

}  // namespace lockstep
