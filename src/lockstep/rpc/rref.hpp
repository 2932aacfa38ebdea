#pragma once
#include <chrono>
#include <memory>
#include <utility>

#include <lockstep/rpc/error.hpp>
#include <lockstep/rpc/future.hpp>
#include <lockstep/rpc/options.hpp>
#include <lockstep/rpc/reference_handle.hpp>

namespace lockstep::rpc {

class InputArchive;
class OutputArchive;
struct Function;

/// The owner's answer to RRef::to_here.
[[nodiscard]] const Function& to_here_function();

/// A reference to an object on some rank, its owner. remote() returns one, and a rank can make one
/// from its own value. Copies share; it can be passed as an argument or in one, returned, and
/// stored in objects. The object lives until the last reference, on any rank, is gone:
/// references.hpp gives the protocol and its proof. Thread-safe as a std::shared_ptr is.
template <class T>
class RRef {
 public:
  RRef() = default;  ///< to nothing
  /// To an object of this rank.
  explicit RRef(T value) : RRef(std::make_shared<T>(std::move(value))) {}
  /// Throws InputError for a null pointer.
  explicit RRef(std::shared_ptr<T> object);
  explicit RRef(std::unique_ptr<T> object) : RRef(std::shared_ptr<T>(std::move(object))) {}
  explicit RRef(std::shared_ptr<ReferenceHandle> handle) : handle_(std::move(handle)) {}

  [[nodiscard]] bool defined() const noexcept { return static_cast<bool>(handle_); }
  [[nodiscard]] WorkerInfo owner() const { return held().owner_info(); }
  [[nodiscard]] bool is_owner() const { return held().is_owner(); }
  /// True once the owner knows this rank's share and so will not delete the object.
  [[nodiscard]] bool confirmed_by_owner() const { return held().is_confirmed(); }

  /// A copy of the object. Waits until it exists; throws the error of its creation as RemoteError,
  /// TimeoutError at the deadline (0: Options::timeout).
  [[nodiscard]] T to_here(std::chrono::milliseconds timeout = {}) const {
    return to_here_async(timeout).wait();
  }
  [[nodiscard]] Future<T> to_here_async(std::chrono::milliseconds timeout = {}) const;
  /// The object itself, on its owner; waits until it has been made. Throws Error on other ranks.
  [[nodiscard]] T& local_value() const { return *static_cast<T*>(held().local_object().get()); }

  /// Calls a registered method (LOCKSTEP_RPC(T::method)) of the object or of a public base class,
  /// on its owner. Several calls may run at once: objects that change have a lock of their own.
  template <class M, class... A>
  auto rpc_sync(M method, A&&... arguments) const;
  template <class M, class... A>
  [[nodiscard]] auto rpc_async(M method, A&&... arguments) const;
  /// The same with a deadline.
  template <class M, class... A>
  [[nodiscard]] auto call_within(std::chrono::milliseconds timeout, M method,
                                 A&&... arguments) const;
  /// The same, but the result stays there as an object; returns a reference to it at once, as
  /// rpc::remote does.
  template <class M, class... A>
  [[nodiscard]] auto remote(M method, A&&... arguments) const;

  /// Throws Error if it refers to nothing, or was taken back by shutdown().
  [[nodiscard]] const ReferenceHandle& held() const {
    if (!handle_) throw Error("an empty RRef was used");
    handle_->expect_held();
    return *handle_;
  }

 private:
  template <class M>
  static constexpr void expect_method();
  template <class R>
  void keep_until_done(const Future<R>& future) const;

  std::shared_ptr<ReferenceHandle> handle_;
};

template <class T>
template <class R>
void RRef<T>::keep_until_done(const Future<R>& future) const {
  future.state()->keep(handle_);
}

}  // namespace lockstep::rpc
