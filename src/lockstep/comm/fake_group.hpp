#pragma once
#include <cstdint>

#include <lockstep/comm/process_group.hpp>

namespace lockstep {

/// One rank of a group of any size whose other ranks do not exist: plans, samplers and whole
/// trainers of rank 3071 of 4,096 run on a laptop. Arguments are checked as by every backend. Every
/// operation completes at once, as if the other ranks had passed this rank's input, and its colour
/// and key to split(). all_reduce leaves the tensor as it is; all_gather fills every rank's place
/// with the caller's input. Operations whose result only another rank could supply (broadcast,
/// scatter, recv) leave the output as it is, and recv() returns -1. So values that depend on other
/// ranks are wrong; shapes, counts and orders are right.
class FakeGroup final : public ProcessGroup {
 public:
  /// Throws InputError unless 0 <= rank < size.
  FakeGroup(int size, int rank);

  [[nodiscard]] int rank() const noexcept override { return rank_; }
  [[nodiscard]] int size() const noexcept override { return size_; }
  [[nodiscard]] const char* backend() const noexcept override { return "fake"; }

  /// Operations and bytes that this rank would have sent so far.
  struct Traffic {
    std::int64_t operations = 0;  ///< barriers included
    std::int64_t bytes = 0;       ///< of the tensors that it brought to them
  };
  [[nodiscard]] Traffic traffic() const noexcept { return traffic_; }

 private:
  [[nodiscard]] Work start(Operation&& operation) override;
  void release() override { closed_ = true; }
  [[nodiscard]] std::shared_ptr<ProcessGroup> make_subgroup(std::span<const int> members) override;
  void expect_open() const;

  int size_, rank_;
  bool closed_ = false;
  Traffic traffic_;
};

}  // namespace lockstep
