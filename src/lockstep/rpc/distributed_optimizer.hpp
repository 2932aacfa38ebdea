#pragma once
#include <cstdint>
#include <vector>

#include <lockstep/optim/optimizer_options.hpp>
#include <lockstep/rpc/dist_autograd.hpp>
#include <lockstep/rpc/rref.hpp>

namespace lockstep::nn {
class Module;
}

namespace lockstep::rpc {

/// References to a module's parameters, in their order, for a DistributedOptimizer on another rank.
/// On the rank that has the module.
[[nodiscard]] std::vector<RRef<Variable>> parameter_rrefs(const nn::Module& module);

class RemoteOptimizer;

/// Whether updates of one rank's parameters wait for each other.
enum class Updates : std::uint8_t {
  locked,   ///< one step at a time on each rank, over all callers
  hogwild,  ///< all at once: an update may overwrite a part of another (Niu et al. 2011)
};

/// Updates parameters on the ranks that hold them: it makes one optimizer on each of these ranks,
/// whose state stays there, and steps all of them. Counterpart of torch.distributed.optim. Several
/// DistributedOptimizers, on several ranks, may update the same parameters, each with its own
/// state. Forward passes that read parameters meanwhile see some of them old and some new.
class DistributedOptimizer {
 public:
  /// Register a kind of your own (optim::register_optimizer) on the parameters' ranks too.
  /// Parameter groups and not_adapted go by names "parameter0", "parameter1", ... in the order
  /// given. Throws InputError for options that are out of range, Error without parameters.
  DistributedOptimizer(const optim::OptimizerOptions& options,
                       std::vector<RRef<Variable>> parameters, Updates updates = Updates::locked);

  /// One update of every parameter that has a gradient in the context. Returns when all are made;
  /// if one fails, throws its error after the others have finished. With
  /// OptimizerOptions::clip_norm, each rank is asked for its gradients' norm before.
  void step(std::uint64_t context);
  void step(const dist_autograd::Context& context) { step(context.id()); }
  /// The learning rate of the next steps, on all ranks. Throws InputError.
  void set_lr(double lr);

 private:
  /// The calls, which are over.
  template <class M, class... A>
  auto on_every_rank(M method, A... arguments);

  double clip_norm_;
  std::vector<RRef<RemoteOptimizer>> parts_;  ///< one a rank
};

}  // namespace lockstep::rpc
