#pragma once
#include <string>
#include <utility>
#include <vector>

#include <lockstep/parallel/pipeline/pipeline_options.hpp>
#include <lockstep/parallel/pipeline/stage_executor.hpp>
#include <lockstep/tensor/state_dict.hpp>

namespace lockstep {

/// Names of parameters and buffers over all stages.
class StageNames {
 public:
  /// Names of stages are the undivided model's, as long as no two stages use one for different
  /// tensors; else all begin with "stage3.". Collective.
  StageNames(const StageExecutor& executor, const std::vector<std::vector<StageParameter>>& tied);

  /// This rank's parameters, each once, a tied one under its first name.
  [[nodiscard]] const std::vector<nn::NamedParameter>& parameters() const noexcept {
    return parameters_;
  }
  /// The state of this rank's stages, and tied parameters under their first name too.
  [[nodiscard]] StateDict state_of(const StageExecutor& executor) const;

 private:
  [[nodiscard]] std::string prefix(int stage) const;
  /// The first name of a tied parameter; empty for another.
  [[nodiscard]] std::string first_name_of(const Variable& parameter) const;

  bool numbered_ = false;
  std::vector<std::pair<Variable, StageParameter>> tied_;  ///< on this rank, with their first names
  std::vector<nn::NamedParameter> parameters_;
};

}  // namespace lockstep
