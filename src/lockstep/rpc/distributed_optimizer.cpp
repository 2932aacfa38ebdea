#include <lockstep/rpc/distributed_optimizer.hpp>

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include <lockstep/base/error.hpp>
#include <lockstep/rpc/autograd_context.hpp>

namespace lockstep::optim {

/// How options travel.
template <class Archive>
void serialize(Archive& archive, OptimizerOptions& o) {
  archive(o.kind, o.lr, o.momentum, o.dampening, o.nesterov, o.weight_decay, o.betas, o.eps,
          o.amsgrad, o.trust_coefficient, o.not_adapted, o.clip_norm, o.clip_value, o.group_pattern,
          o.group_lr_factor, o.group_weight_decay);
}

}  // namespace lockstep::optim

namespace lockstep::rpc {
namespace {

/// Of all locked updates of this rank: which optimizers share parameters is not known.
std::mutex& update_lock() {
  static std::mutex mutex;
  return mutex;
}

}  // namespace

/// The optimizer on one rank. Its leaves share the parameters' values, but have gradients of their
/// own: so other optimizers, and backward passes, are not in the way.
class RemoteOptimizer {
 public:
  RemoteOptimizer(const optim::OptimizerOptions& options,
                  const std::vector<RRef<Variable>>& parameters,
                  const std::vector<std::uint64_t>& numbers, Updates updates)
      : options_(options), updates_(updates) {
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      parameters_.push_back(parameters[i].local_value());
      leaves_.push_back(
          {"parameter" + std::to_string(numbers[i]), Variable(parameters_.back().data(), true)});
    }
    optimizer_ = optim::make_optimizer(options, leaves_);
  }

  void step(std::uint64_t context) {
    const auto part = dist_autograd::Contexts::of(Agent::current()).find(context);
    if (!part) return;  // no call of it came here
    const std::lock_guard own(mutex_);
    for (std::size_t i = 0; i < leaves_.size(); ++i) {
      const Variable& leaf = leaves_[i].variable;
      leaf.zero_grad();
      const Tensor gradient = part->gradient(parameters_[i]);
      if (!gradient.defined()) continue;
      leaf.set_grad_buffer(gradient);
      leaf.mark_grad_present();
    }
    const auto clipping = optim::clip_gradients(options_, leaves_);
    std::unique_lock<std::mutex> lock;
    if (updates_ == Updates::locked) lock = std::unique_lock(update_lock());
    optimizer_->step(clipping.factor);
  }

  void set_lr(double lr) {
    const std::lock_guard own(mutex_);
    optimizer_->set_lr(lr);
  }

 private:
  optim::OptimizerOptions options_;
  Updates updates_;
  std::vector<Variable> parameters_;
  std::vector<nn::NamedParameter> leaves_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  std::mutex mutex_;
};

namespace {

std::unique_ptr<RemoteOptimizer> make_remote_optimizer(
    const optim::OptimizerOptions& options, const std::vector<RRef<Variable>>& parameters,
    const std::vector<std::uint64_t>& numbers, Updates updates) {
  return std::make_unique<RemoteOptimizer>(options, parameters, numbers, updates);
}
LOCKSTEP_RPC_AS("lockstep::rpc::make_remote_optimizer", make_remote_optimizer);
LOCKSTEP_RPC_AS("lockstep::rpc::RemoteOptimizer::step", RemoteOptimizer::step);
LOCKSTEP_RPC_AS("lockstep::rpc::RemoteOptimizer::set_lr", RemoteOptimizer::set_lr);

}  // namespace

std::vector<RRef<Variable>> parameter_rrefs(const nn::Module& module) {
  std::vector<RRef<Variable>> references;
  for (const Variable& parameter : module.parameters()) {
    if (parameter.requires_grad()) references.emplace_back(parameter);
  }
  return references;
}

DistributedOptimizer::DistributedOptimizer(const optim::OptimizerOptions& options,
                                           std::vector<RRef<Variable>> parameters,
                                           Updates updates) {
  if (parameters.empty()) throw Error("a DistributedOptimizer was given no parameters");
  struct Share {
    std::vector<RRef<Variable>> parameters;
    std::vector<std::uint64_t> numbers;
  };
  std::map<int, Share> shares;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    Share& share = shares[parameters[i].owner().id];
    share.parameters.push_back(std::move(parameters[i]));
    share.numbers.push_back(i);
  }
  for (const auto& [owner, share] : shares) {
    parts_.push_back(
        remote(owner, make_remote_optimizer, options, share.parameters, share.numbers, updates));
  }
  set_lr(options.lr);  // throws what making them threw
}

template <class M, class A>
void DistributedOptimizer::on_every_rank(M method, A argument) {
  std::vector<Future<void>> calls;
  for (const auto& part : parts_) calls.push_back(part.rpc_async(method, argument));
  std::exception_ptr failure;
  for (const auto& call : calls) {
    try {
      call.wait();
    } catch (...) {
      if (!failure) failure = std::current_exception();
    }
  }
  if (failure) std::rethrow_exception(failure);
}

void DistributedOptimizer::step(std::uint64_t context) {
  if (!dist_autograd::Contexts::of(Agent::current()).find(context)) {
    throw Error(
        "DistributedOptimizer::step was given a context that has ended, or is none of this "
        "rank's");
  }
  on_every_rank(&RemoteOptimizer::step, context);
}

void DistributedOptimizer::set_lr(double lr) { on_every_rank(&RemoteOptimizer::set_lr, lr); }

}  // namespace lockstep::rpc
