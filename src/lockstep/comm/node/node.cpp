#include <lockstep/comm/node/node.hpp>

#include <fmt/format.h>

#include <algorithm>

#include <lockstep/base/process_state.hpp>

namespace lockstep {

ComputeNode::ComputeNode(std::shared_ptr<Segment> segment, std::vector<int> group_ranks,
                         int node_rank, bool whole_group, bool has_staging, Reach reach)
    : group_ranks_(std::move(group_ranks)),
      slot_table_(segment, static_cast<int>(group_ranks_.size()), node_rank),
      whole_group_(whole_group),
      has_staging_(has_staging),
      reach_(reach),
      sources_(group_ranks_.size()),
      targets_(group_ranks_.size()) {
  add_buffer(std::move(segment));
}

void ComputeNode::notify(int group_rank) const noexcept {
  const auto found = std::ranges::find(group_ranks_, group_rank);
  if (found == group_ranks_.end()) return;
  slot_table_.event_of(static_cast<int>(found - group_ranks_.begin())).notify();
}

SharedPlace ComputeNode::place_of(const Tensor& t) const noexcept {
  const auto* begin = static_cast<const std::byte*>(t.data());
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-reinterpret-cast)
  if (is_one_process()) return {0, reinterpret_cast<std::uint64_t>(begin)};
  for (std::size_t b = 0; b < buffers_.size(); ++b) {
    const std::byte* part = buffers_[b]->part(rank());
    if (begin < part || begin + t.bytes() > part + buffers_[b]->part_bytes()) continue;
    return {static_cast<std::int32_t>(b), static_cast<std::uint64_t>(begin - part)};
  }
  return {};
}

std::string missing_ranks(const ComputeNode& node, const Operation& operation) {
  const SlotTable& table = node.slot_table();
  std::string who;
  for (int r = 0; r < node.size(); ++r) {
    if (table.has_posted(r, operation.sequence)) continue;
    const CallRecord* last = table.last_call(r);
    who +=
        fmt::format("{}rank {} has not entered it ({}", who.empty() ? "" : "; ", node.group_rank(r),
                    last ? "its last was " + describe_fully(*last) : "it has called nothing yet");
    const int pid = table.pid_of(r);
    who += node.is_one_process()
               ? ")"
               : fmt::format("; its process {} {})", pid, words(process_state(pid)));
  }
  return who;
}

}  // namespace lockstep
