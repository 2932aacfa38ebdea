#include <lockstep/rpc/agent.hpp>
#include <lockstep/rpc/distributed_optimizer.hpp>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include <lockstep/base/error.hpp>
#include <lockstep/deck/any_key.hpp>
#include <lockstep/optim/clip.hpp>
#include <lockstep/optim/make_optimizer.hpp>
#include <lockstep/rpc/autograd_context.hpp>

namespace lockstep::optim {

/// Writes options key by key into a message, or reads them.
template <class Archive>
class ArchivedTable final : public lockstep::detail::AnyKey<ArchivedTable<Archive>> {
 public:
  explicit ArchivedTable(Archive& archive) : archive_(archive) {}

  template <class T>
  void any_key(std::string_view, T& field, const KeyInfo&) {
    archive_(field);
  }

 private:
  /// Kinds are sent by name: the sets registered on two ranks may differ.
  std::size_t pick(std::string_view key, const std::vector<std::string_view>& names,
                   std::size_t chosen, std::string_view) override {
    std::string name(names[chosen]);
    archive_(name);
    const auto found = std::ranges::find(names, name);
    if (found == names.end()) {
      throw InputError(
          fmt::format("{} \"{}\" of an optimizer is unknown on the rank that owns the parameters. "
                      "Register it there too: optim::register_optimizer.",
                      key, name));
    }
    return static_cast<std::size_t>(found - names.begin());
  }

  Archive& archive_;
};

/// Serialises all declared options.
template <class Archive>
void serialize(Archive& archive, OptimizerOptions& options) {
  ArchivedTable<Archive> table(archive);
  declare(table, options);
}

}  // namespace lockstep::optim

namespace lockstep::rpc {
namespace {

/// Locks all updates on this rank: optimizers may share parameters.
std::mutex& update_lock() {
  static std::mutex mutex;
  return mutex;
}

std::string parameter_name(std::uint64_t number) { return "parameter" + std::to_string(number); }

/// Names alone, for patterns.
std::vector<nn::NamedParameter> named(const std::vector<std::uint64_t>& numbers) {
  std::vector<nn::NamedParameter> parameters;
  for (const std::uint64_t number : numbers) parameters.push_back({parameter_name(number), {}});
  return parameters;
}

}  // namespace

/// The optimizer on one rank. Its leaves share the parameters' values but have gradients of their
/// own, so they do not interfere with other optimizers and backward passes.
class RemoteOptimizer {
 public:
  RemoteOptimizer(const optim::OptimizerOptions& options,
                  const std::vector<RRef<Variable>>& parameters,
                  const std::vector<std::uint64_t>& numbers, Updates updates)
      : clip_value_(options.clip_value), updates_(updates) {
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      parameters_.push_back(parameters[i].local_value());
      leaves_.push_back({parameter_name(numbers[i]), Variable(parameters_.back().data(), true)});
    }
    optimizer_ = optim::make_optimizer(options, leaves_);
  }

  double gradient_norm(std::uint64_t context) {
    const std::lock_guard own(mutex_);
    return take_gradients(context) ? optim::grad_norm(leaves_) : 0.0;
  }

  void step(std::uint64_t context, double gradient_factor) {
    const std::lock_guard own(mutex_);
    if (!take_gradients(context)) return;
    std::unique_lock<std::mutex> lock;
    if (updates_ == Updates::locked) lock = std::unique_lock(update_lock());
    optimizer_->step(gradient_factor);
  }

  void set_lr(double lr) {
    const std::lock_guard own(mutex_);
    optimizer_->set_lr(lr);
  }

 private:
  /// Gives the leaves the context's gradients, their values clipped. False if this rank takes no
  /// part in the context.
  bool take_gradients(std::uint64_t context) {
    const auto part = dist_autograd::Contexts::of(Agent::current()).find(context);
    if (!part) return false;
    for (std::size_t i = 0; i < leaves_.size(); ++i) {
      const Variable& leaf = leaves_[i].variable;
      leaf.zero_grad();
      const Tensor gradient = part->gradient(parameters_[i]);
      if (!gradient.defined()) continue;
      leaf.set_grad_buffer(gradient);
      leaf.mark_grad_present();
    }
    if (clip_value_ > 0.0) optim::clip_grad_value(leaves_, clip_value_);
    return true;
  }

  double clip_value_;
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
LOCKSTEP_RPC_AS("lockstep::rpc::RemoteOptimizer::gradient_norm", RemoteOptimizer::gradient_norm);
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
                                           std::vector<RRef<Variable>> parameters, Updates updates)
    : clip_norm_(options.clip_norm) {
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
  std::vector<std::uint64_t> all(parameters.size());
  std::iota(all.begin(), all.end(), std::uint64_t{0});
  for (const auto& [owner, share] : shares) {
    const auto own = optim::options_of_part(options, named(all), named(share.numbers));
    parts_.push_back(
        remote(owner, make_remote_optimizer, own, share.parameters, share.numbers, updates));
  }
  set_lr(options.lr());  // rethrows a failure of their construction
}

template <class M, class... A>
auto DistributedOptimizer::on_every_rank(M method, A... arguments) {
  std::vector<decltype(parts_[0].rpc_async(method, arguments...))> calls;
  for (const auto& part : parts_) calls.push_back(part.rpc_async(method, arguments...));
  std::exception_ptr failure;
  for (const auto& call : calls) {
    try {
      call.wait();
    } catch (...) {
      if (!failure) failure = std::current_exception();
    }
  }
  if (failure) std::rethrow_exception(failure);
  return calls;
}

void DistributedOptimizer::step(std::uint64_t context) {
  if (!dist_autograd::Contexts::of(Agent::current()).find(context)) {
    throw Error(
        "DistributedOptimizer::step was given a context that has ended or belongs to another rank");
  }
  double factor = 1.0;
  if (clip_norm_ > 0.0) {
    double squares = 0.0;
    for (const auto& norm : on_every_rank(&RemoteOptimizer::gradient_norm, context)) {
      squares += norm.wait() * norm.wait();
    }
    factor = optim::clip_factor(std::sqrt(squares), clip_norm_);
  }
  on_every_rank(&RemoteOptimizer::step, context, factor);
}

void DistributedOptimizer::set_lr(double lr) { on_every_rank(&RemoteOptimizer::set_lr, lr); }

}  // namespace lockstep::rpc
