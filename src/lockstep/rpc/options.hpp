#pragma once
#include <chrono>
#include <cstdint>
#include <string>
#include <utility>

#include <lockstep/base/error.hpp>

namespace lockstep::rpc {

/// Options of rpc::init.
struct Options {
  /// Of a call, unless To::within says otherwise: then it throws TimeoutError.
  std::chrono::milliseconds timeout = std::chrono::minutes(1);
  /// Graceful shutdown: how long it waits for ranks that have not called it, and for functions that
  /// do not return. The time counts from the moment when no rank works any more: none sends,
  /// executes or answers a call, or waits for one within its deadline. 0: as long as it takes.
  std::chrono::milliseconds shutdown_timeout{0};
  /// Largest number of nested calls, one made inside the other on any ranks; each takes a thread. A
  /// deeper one throws Error at once. Without threads 1000 at most.
  int max_depth = 10'000;
  /// Number of threads of this rank that execute calls; a thread that waits for an answer is not
  /// counted, and is replaced. 0 (always so if MPI grants less than MPI_THREAD_MULTIPLE): no
  /// threads; waiting threads and serve() execute calls.
  int workers = 4;
  /// Tensors of at most this many bytes travel within the message; larger ones separately, without
  /// a copy.
  std::int64_t inline_bytes = 64 << 10;
  /// Larger messages are neither sent nor accepted; tensors that travel on their own do not count.
  /// 1024 at least.
  std::int64_t max_message_bytes = std::int64_t{1} << 30;
  /// All tensors of a message that travel on their own.
  std::int64_t max_tensor_bytes = std::int64_t{1} << 40;
  /// Whether a call wakes a sleeping worker on another machine by a datagram (UDP), for which each
  /// worker opens two sockets. Without datagrams, or if none arrives, the worker finds the call at
  /// its next poll, after 2 ms at most. Without threads it looks every 0.5 ms, and opens none.
  bool wake_by_datagrams = true;
};

/// A worker: a rank that has called init().
struct WorkerInfo {
  std::string name;
  int id = -1;  ///< its rank in the group given to init()
};

/// The callee, by name or by id, and optionally a timeout.
class To {
 public:
  To(int id) : id_(id) {}                           // NOLINT(google-explicit-constructor)
  To(std::string name) : name_(std::move(name)) {}  // NOLINT(google-explicit-constructor)
  To(const char* name) : name_(checked(name)) {}    // NOLINT(google-explicit-constructor)
  To(const WorkerInfo& worker) : id_(worker.id) {}  // NOLINT(google-explicit-constructor)

  /// The same, for calls with a timeout of their own.
  [[nodiscard]] To within(std::chrono::milliseconds timeout) const {
    To to = *this;
    to.timeout_ = timeout;
    return to;
  }

  [[nodiscard]] int id() const noexcept { return id_; }  ///< -1: by name
  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  [[nodiscard]] std::chrono::milliseconds timeout() const noexcept { return timeout_; }  ///< or 0

 private:
  static const char* checked(const char* name) {
    if (!name) throw InputError("a worker's name is a null pointer");
    return name;
  }

  int id_ = -1;
  std::string name_;
  std::chrono::milliseconds timeout_{0};
};

}  // namespace lockstep::rpc
