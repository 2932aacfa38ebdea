#pragma once
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <lockstep/comm/work.hpp>
#include <lockstep/tensor/tensor.hpp>

namespace lockstep {

class DeckTable;

enum class ReduceOp : std::uint8_t { sum, avg, min, max };

struct GroupOptions {
  /// Every wait ends by then. Counted from the moment the wait begins.
  std::chrono::milliseconds timeout = std::chrono::minutes(10);
};
void declare(DeckTable& table, GroupOptions& options);

/// An ordered set of ranks that talk to each other and to nobody else.
///
/// Contract: all ranks make the same calls in the same order with equal shapes, dtypes and
/// operations; several operations may be in flight. A group of one needs no launcher, so callers
/// never ask "am I distributed?". One thread per group at a time.
///
/// Failure: a time-out or a failed peer poisons the group. Later calls throw CommError at once, and
/// the buffers of unfinished operations stay alive for the life of the process, because MPI may
/// still write to them. The library only throws; whoever owns main() decides what happens next.
///
/// Lifetime: close() is collective; the destructor is local and never communicates.
class ProcessGroup {
 public:
  virtual ~ProcessGroup() = default;

  [[nodiscard]] virtual int rank() const noexcept = 0;             ///< in [0, size())
  [[nodiscard]] virtual int size() const noexcept = 0;             ///< at least 1
  [[nodiscard]] virtual const char* backend() const noexcept = 0;  ///< "mpi", "threads", "fake"

  /// Starts replacing `t` (any shape, possibly empty) by its reduction over all ranks; `t` is off
  /// limits until wait(). dtypes: f32, f64, i32, i64, u8; avg: f32 and f64 only. Collective. Every
  /// rank gets the same bits; another group size may round differently.
  [[nodiscard]] virtual Work all_reduce(const Tensor& t, ReduceOp op) = 0;

  /// Starts replacing `t` on every rank by rank `root`'s. Any dtype. Collective.
  [[nodiscard]] virtual Work broadcast(const Tensor& t, int root) = 0;

  /// Starts filling `output`, of shape [size(), ...input.shape()], with every rank's `input` in
  /// rank order. Any dtype. Collective.
  [[nodiscard]] virtual Work all_gather(const Tensor& input, const Tensor& output) = 0;

  /// Returns when every rank has entered, or throws TimeoutError. Collective.
  virtual void barrier() = 0;

  /// Releases what the group holds (communicators). Collective; the group is unusable afterwards.
  virtual void close() = 0;

 protected:
  ProcessGroup() = default;
  ProcessGroup(const ProcessGroup&) = delete;
  ProcessGroup& operator=(const ProcessGroup&) = delete;
};

/// Rank `root`'s bytes on every rank. Collective.
[[nodiscard]] std::string broadcast_object(ProcessGroup& group, const std::string& bytes, int root);

/// Every rank's bytes, in rank order, on every rank. Lengths may differ. Collective.
[[nodiscard]] std::vector<std::string> all_gather_object(ProcessGroup& group,
                                                         const std::string& bytes);

/// The reduction of one number, on every rank. Collective.
[[nodiscard]] double all_reduce_scalar(ProcessGroup& group, double value, ReduceOp op);

}  // namespace lockstep
