#pragma once
#include <span>
#include <vector>

#include <lockstep/comm/process_group.hpp>

namespace lockstep {

/// Throws InputError, on every rank, unless all of them pass the same lists of ranks to `call`.
/// Collective.
void expect_same_members(ProcessGroup& group, std::span<const std::vector<int>> lists,
                         const char* call);

/// Throws InputError unless `ranks` are one or more different ranks of a group of `size`.
void expect_members(std::span<const int> ranks, int size, const char* call);

/// The ranks of `group` that passed this rank's colour to split(), ordered by key, then by rank;
/// empty if it is negative. Collective.
[[nodiscard]] std::vector<int> members_of_split(ProcessGroup& group, int colour, int key);

/// The group that new_group and split return on a rank that is not a member. Private to the layer.
class OutsideGroup final : public ProcessGroup {
 public:
  /// `who`: the rank in the parent group.
  OutsideGroup(int who, int members) : who_(who), members_(members) {}

  [[nodiscard]] int rank() const noexcept override { return -1; }
  [[nodiscard]] int size() const noexcept override { return members_; }
  [[nodiscard]] const char* backend() const noexcept override { return "none"; }
  [[nodiscard]] Tensor shared_buffer(const Shape& shape, DType dtype) override;

  /// The rank that is outside, in the group that this one was made from.
  [[nodiscard]] int who() const noexcept { return who_; }

 private:
  [[nodiscard]] Work start(Operation&& operation) override;
  [[nodiscard]] std::shared_ptr<ProcessGroup> make_subgroup(std::span<const int> members) override;
  void release() override {}

  int who_, members_;
};

/// Throws Error: `call` was made on a group that this rank is not in.
[[noreturn]] void refuse_outside(const ProcessGroup& group, const char* call);

}  // namespace lockstep
