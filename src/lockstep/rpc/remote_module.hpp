#pragma once
#include <chrono>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include <lockstep/autograd/variable.hpp>
#include <lockstep/rpc/call.hpp>

namespace lockstep::nn {
class Module;
}

namespace lockstep::rpc {

namespace detail {
/// The remote module's forward, and references to its parameters.
[[nodiscard]] Future<Variable> forward_there(const ReferenceHandle& module, const Variable& x,
                                             std::chrono::milliseconds timeout);
[[nodiscard]] Future<std::vector<RRef<Variable>>> parameters_there(const ReferenceHandle& module);
}  // namespace detail

/// A module that lives on another worker, as torch.distributed.nn's RemoteModule:
///   std::unique_ptr<Net> make_net(int width) { return std::make_unique<Net>(width); }
///   LOCKSTEP_RPC(make_net);
///   const rpc::RemoteModule net("worker1", make_net, 128);
///   const Variable y = net.forward(x);
/// Within a dist_autograd::Context, y is part of the graph. Copies share the module, which lives
/// until the last of them has gone.
template <class M>
class RemoteModule {
  static_assert(std::is_convertible_v<M*, nn::Module*>, "a RemoteModule needs an nn::Module");

 public:
  /// Calls `make`, a registered function that returns a std::unique_ptr or std::shared_ptr to a
  /// module, on worker `to`. If it throws, the first use throws that error.
  template <class P, class... Parameters, class... A>
  RemoteModule(const To& to, P (*make)(Parameters...), A&&... arguments)
      : module_(remote(to, make, std::forward<A>(arguments)...)) {}
  explicit RemoteModule(RRef<M> module) : module_(std::move(module)) {}

  /// Runs nn::Module::forward of `x` there. Throws the remote exception as RemoteError;
  /// TimeoutError at the deadline (0: Options::timeout).
  [[nodiscard]] Variable forward(const Variable& x, std::chrono::milliseconds timeout = {}) const {
    return forward_async(x, timeout).wait();
  }
  [[nodiscard]] Future<Variable> forward_async(const Variable& x,
                                               std::chrono::milliseconds timeout = {}) const {
    return kept(detail::forward_there(module_.held(), x, timeout));
  }
  /// References to the parameters that require a gradient, for a DistributedOptimizer.
  [[nodiscard]] std::vector<RRef<Variable>> remote_parameters() const {
    return kept(detail::parameters_there(module_.held())).wait();
  }
  /// For calls of its other methods.
  [[nodiscard]] const RRef<M>& module_rref() const noexcept { return module_; }

 private:
  template <class R>
  [[nodiscard]] Future<R> kept(Future<R> future) const {
    future.state()->keep(std::make_shared<RRef<M>>(module_));
    return future;
  }

  RRef<M> module_;
};

template <class P, class... Parameters, class... A>
RemoteModule(const To&, P (*)(Parameters...), A&&...) -> RemoteModule<detail::Object<P>>;

}  // namespace lockstep::rpc
