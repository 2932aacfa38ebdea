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
  /// Of a graceful shutdown: how long it waits for ranks that have not come, and for functions that
  /// do not return, once nobody works any more, which is when no rank has sent, executed or
  /// answered a call, or waits for one within its deadline. 0: as long as it takes.
  std::chrono::milliseconds shutdown_timeout{0};
  /// So many calls may wait for each other, one made within the other on any ranks; each takes a
  /// thread. A deeper one throws Error at once. Without threads 1000 at most.
  int max_depth = 10'000;
  /// So many threads of this rank execute calls; those that wait for an answer are not counted, and
  /// replaced. 0, and always where MPI grants less than MPI_THREAD_MULTIPLE: none, calls are
  /// executed by who waits, and by serve().
  int workers = 4;
  /// Tensors of at most so many bytes travel within the message; longer ones on their own, without
  /// a copy.
  std::int64_t inline_bytes = 64 << 10;
  /// Larger messages are neither sent nor accepted; tensors that travel on their own do not count.
  /// 1024 at least.
  std::int64_t max_message_bytes = std::int64_t{1} << 30;
  /// All tensors of a message that travel on their own.
  std::int64_t max_tensor_bytes = std::int64_t{1} << 40;
  /// Whether a call wakes a worker that sleeps on another machine by a datagram (UDP), for which
  /// each of them opens two sockets. Without that, and where none gets through, it finds the call
  /// when it looks next, after 2 ms at most. Without threads it looks every 0.5 ms, and opens none.
  bool wake_by_datagrams = true;
};

/// A worker: a rank that has called init().
struct WorkerInfo {
  std::string name;
  int id = -1;  ///< its rank in the group given to init()
};

/// Whom to call, by name or by id; and, if wished, until when.
class To {
 public:
  To(int id) : id_(id) {}                           // NOLINT(google-explicit-constructor)
  To(std::string name) : name_(std::move(name)) {}  // NOLINT(google-explicit-constructor)
  To(const char* name) : name_(checked(name)) {}    // NOLINT(google-explicit-constructor)
  To(const WorkerInfo& worker) : id_(worker.id) {}  // NOLINT(google-explicit-constructor)

  /// The same, for calls that must be answered within `timeout`.
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
