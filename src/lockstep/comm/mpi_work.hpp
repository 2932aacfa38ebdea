#pragma once
#include <array>

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

  [[nodiscard]] const Operation& operation() const noexcept { return operation_; }

 private:
  friend class MpiCore;
  enum class State { running, done, failed };

  // An MPI call takes at most 2^31 - 1 elements: longer tensors travel in parts of this many.
  static constexpr std::int64_t part_elements = std::int64_t{1} << 30;
  static constexpr int max_parts = 64;  // 64 Gi elements

  void release() noexcept override;
  [[nodiscard]] int start_part(std::int64_t begin, std::int64_t count, MPI_Request* request);
  [[nodiscard]] int gather_part(std::int64_t begin, int count, MPI_Request* request);
  /// One MPI test; returns MPI's status. On completion also finishes the result.
  [[nodiscard]] int advance();

  IntrusivePtr<MpiCore> core_;
  Operation operation_;
  State state_ = State::running;
  int parts_ = 0;
  std::array<MPI_Request, max_parts> requests_;
  MpiWork* previous_ = nullptr;
  MpiWork* next_ = nullptr;
};

}  // namespace lockstep
