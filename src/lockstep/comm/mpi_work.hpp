#pragma once
#include <lockstep/comm/mpi_calls.hpp>
#include <lockstep/comm/mpi_core.hpp>

namespace lockstep {

/// One operation in MPI's hands. The core's list owns it while it is in flight; it is recycled when
/// it is over and nobody holds its Work.
class MpiWork final : public WorkRecord {
 public:
  MpiWork(IntrusivePtr<MpiCore> core, Operation operation)
      : core_(std::move(core)), operation_(std::move(operation)) {}

  ~MpiWork() override = default;

  /// Makes the MPI calls; returns the first status that is not MPI_SUCCESS.
  [[nodiscard]] int start();

  bool poll() override;
  void wait() override;
  [[nodiscard]] int source() const noexcept override { return source_; }

  [[nodiscard]] const Operation& operation() const noexcept { return operation_; }

 private:
  friend class MpiCore;
  enum class State { running, done, failed };

  void release() noexcept override;
  [[nodiscard]] bool stages() const;
  void stage();
  /// One MPI test; returns MPI's status. On completion also finishes the result.
  [[nodiscard]] int advance();
  [[nodiscard]] int advance_receive(int* over);
  [[nodiscard]] int advance_exchange(int* over);
  void finish();

  IntrusivePtr<MpiCore> core_;
  Operation operation_;
  Tensor staged_input_, staged_output_;  // what MPI sees instead, where it cannot take the tensors
  State state_ = State::running;
  int source_ = -1;
  std::int64_t received_ = 0;  // bytes of the message that came
  MpiCalls calls_;
  MpiWork* previous_ = nullptr;
  MpiWork* next_ = nullptr;
};

}  // namespace lockstep
