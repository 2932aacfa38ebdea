#pragma once
#include <cstdint>
#include <vector>

#include <lockstep/base/list_view.hpp>
#include <lockstep/comm/process_group.hpp>

namespace lockstep {

/// While it lives, the works of all calls that its thread makes on `group` are collected, to be
/// waited for as one; see torch.distributed's _coalescing_manager. Backends that can, start them
/// together.
class Coalescing {
 public:
  explicit Coalescing(ProcessGroup& group);
  ~Coalescing();
  Coalescing(const Coalescing&) = delete;
  Coalescing& operator=(const Coalescing&) = delete;

  /// Ends the batch: over when all of its operations are.
  [[nodiscard]] Work end();

 private:
  friend class ProcessGroup;
  ProcessGroup* group_;
  std::vector<Work> works_;
};

/// One message of a batch.
struct P2POp {
  enum class Kind : std::uint8_t { isend, irecv };
  Kind kind;
  Tensor tensor;
  int peer;
  int tag = 0;
};
/// Starts all of them; their order does not matter, so ranks that all send first do not deadlock.
[[nodiscard]] Work batch_isend_irecv(ProcessGroup& group, ListView<P2POp> messages);

}  // namespace lockstep
