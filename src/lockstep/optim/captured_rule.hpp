#pragma once
#include <cstddef>
#include <typeinfo>

namespace lockstep {
class DeviceGraph;
}

namespace lockstep::optim {

/// The rule by which a captured update changes one run of parameters (DeviceGraph): its kernel
/// reads the rule, with learning rate and bias corrections, from the graph's numbers, where the
/// host writes that of each replay.
class CapturedRule {
 public:
  explicit CapturedRule(DeviceGraph& graph) : graph_(&graph) {}

  /// Keeps a rule, an object of `type` that may be copied by its bytes. False in the capture: the
  /// kernel is to be launched, and reads the rule at memory(). True for a replay: nothing is
  /// launched. Throws Error for a rule of another type than that in the capture.
  [[nodiscard]] bool keep(const void* rule, std::size_t bytes, const std::type_info& type);
  [[nodiscard]] const void* memory() const noexcept { return device_; }
  [[nodiscard]] bool is_kept() const noexcept { return device_ != nullptr; }

 private:
  DeviceGraph* graph_;
  const std::type_info* type_ = nullptr;
  const void* device_ = nullptr;
  void* host_ = nullptr;
};

}  // namespace lockstep::optim
