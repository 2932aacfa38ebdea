#pragma once
#include <array>

#include <lockstep/comm/mpi_calls.hpp>
#include <lockstep/comm/mpi_core.hpp>

namespace lockstep {

/// One operation in flight. The core's list owns it meanwhile; it is recycled when it is over and
/// nobody holds its Work. A collective passes through these phases, a message begins with
/// `calling`:
///   - posting: this rank's slot on the node's board is still being read;
///   - agreeing: until every rank of the node has posted the same call;
///   - agreeing_nodes: until every node has (leaders compare fingerprints by message);
/// then, unless everything stood in the slots and it is done, in one of these ways:
///   - relaying: piece by piece through a shared buffer, one operation at a time;
///   - sharing, closing: in shared buffers, this rank's part, then until the others have done
///   theirs;
///   - leading, closing: over several nodes, this node's sum, then the leaders' among themselves;
///   - calling: MPI does it.
class MpiWork final : public WorkRecord {
 public:
  MpiWork(IntrusivePtr<MpiCore>&& core, Operation&& operation)
      : core_(std::move(core)), operation_(std::move(operation)) {}

  ~MpiWork() override = default;

  bool poll() override;
  void wait() override;
  [[nodiscard]] int source() const noexcept override { return source_; }

  [[nodiscard]] const Operation& operation() const noexcept { return operation_; }

 private:
  friend class MpiCore;
  class Waiting;
  class WorkTimer;
  enum class Phase {
    posting,
    agreeing,
    agreeing_nodes,
    relaying,
    sharing,
    leading,
    closing,
    calling,
    done,
    failed
  };

  void release() noexcept override;
  /// Moves its own group on; true once it is over.
  [[nodiscard]] bool poll_group();
  [[nodiscard]] bool in_flight() const noexcept { return phase_ < Phase::done; }
  /// Goes as far as it can without waiting; returns MPI's status. On completion also finishes the
  /// result.
  [[nodiscard]] int advance();
  /// One step of it; false where the next must wait for somebody.
  [[nodiscard]] bool step();
  [[nodiscard]] bool post();
  [[nodiscard]] bool agree();
  [[nodiscard]] bool agree_nodes();
  void choose_way();
  [[nodiscard]] bool relay();
  [[nodiscard]] bool share();
  [[nodiscard]] bool lead();
  [[nodiscard]] bool close();
  void call();
  [[nodiscard]] bool await_calls();
  [[nodiscard]] bool calls_over();
  /// Tells the node that this rank has finished a stage of the operation.
  void finish_stage(unsigned stage);
  [[nodiscard]] bool all_have_finished(unsigned stage);
  [[nodiscard]] bool stages() const;
  void stage();
  [[nodiscard]] bool is_over(MPI_Request& request);
  /// Looks for its message, and receives it.
  [[nodiscard]] bool is_over(MpiReceive& receive);
  /// True if MPI had a message for it, which an older operation may have got.
  [[nodiscard]] bool find(MpiReceive& receive);
  /// What came must fill what it was to fill.
  void check_length(const MpiReceive& receive);
  void finish();

  IntrusivePtr<MpiCore> core_;
  Operation operation_;
  Tensor staged_input_, staged_output_;  // what MPI sees instead, where it cannot take the tensors
  Phase phase_ = Phase::posting;
  std::uint64_t ticket_ = 0;  // of the flight recorder
  int status_ = MPI_SUCCESS;
  int peer_ = 0;             // the next rank of the node to be looked at
  std::int64_t cursor_ = 0;  // how far this rank's part has come
  int disputed_ = -1;        // a rank of the node whose call differs
  unsigned stage_ = 0;       // finished by this rank
  // The largest of all nodes' fingerprints, of their complements, and of "not in shared buffers".
  std::array<std::uint64_t, 3> fingerprints_{};
  int source_ = -1;
  MpiCalls calls_;
  MpiWork* previous_ = nullptr;
  MpiWork* next_ = nullptr;
};

}  // namespace lockstep
