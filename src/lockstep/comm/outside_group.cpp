#include <lockstep/comm/outside_group.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <lockstep/base/error.hpp>
#include <lockstep/comm/operation.hpp>

namespace lockstep {

void refuse_outside(const ProcessGroup& group, const char* call) {
  const auto* outside = dynamic_cast<const OutsideGroup*>(&group);
  const std::string who = outside ? fmt::format("rank {}", outside->who()) : "this rank";
  throw Error(
      fmt::format("{}: {} is not in this group, which has ranks [{}]: it got it from new_group or "
                  "split, and may "
                  "only ask who is in it. Call this where group->rank() >= 0",
                  call, who, fmt::join(group.ranks(), ", ")));
}

Work OutsideGroup::start(Operation&& operation) { refuse_outside(*this, name_of(operation.kind)); }

std::shared_ptr<ProcessGroup> OutsideGroup::make_subgroup(std::span<const int> /*members*/) {
  refuse_outside(*this, "split");
}

Tensor OutsideGroup::shared_buffer(const Shape& /*shape*/, DType /*dtype*/) {
  refuse_outside(*this, "shared_buffer");
}

}  // namespace lockstep
