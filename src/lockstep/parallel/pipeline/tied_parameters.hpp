#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <lockstep/autograd/variable.hpp>
#include <lockstep/comm/process_group.hpp>
#include <lockstep/comm/revocation.hpp>
#include <lockstep/parallel/pipeline/pipeline_options.hpp>

namespace lockstep {

/// Keeps parameters equal that stages on several ranks hold: they begin with one value, and each
/// rank gets the sum of all stages' gradients.
class TiedParameters {
 public:
  /// The parameter of a stage of this rank; undefined if there is none of this name.
  using Lookup = std::function<Variable(const StageParameter&)>;

  /// Copies the values of the first stage's rank. Makes a group for each parameter. Collective.
  /// Throws InputError on every rank alike: for names that a stage does not have, shapes or dtypes
  /// that differ, or two parameters on one rank.
  TiedParameters(ProcessGroup& group, const std::vector<int>& rank_of_stage, const Lookup& lookup,
                 const std::vector<std::vector<StageParameter>>& tied);

  /// The next gradients are added to those that are there: `summed`, the same on all ranks.
  void begin(bool summed);
  /// Sums over the stages. Collective over their ranks.
  void sum();
  /// Whether it is tied to a parameter of an earlier stage on another rank.
  [[nodiscard]] bool is_of_earlier_stage(const Variable& parameter) const;
  /// This rank's, that other ranks have too.
  [[nodiscard]] std::vector<Variable> parameters() const;
  /// Seconds in which this rank has waited for sums.
  [[nodiscard]] double waited_s() const noexcept { return waited_s_; }
  /// Ends the sums on all ranks.
  void revoke(const std::string& reason) noexcept;
  /// Closes the groups. Collective.
  void close();

 private:
  struct One {
    Variable parameter;  ///< undefined on a rank without
    std::shared_ptr<ProcessGroup> group;
    Tensor before;  ///< a gradient that is summed already
    std::unique_ptr<Revocation> revocation;
  };
  std::vector<One> all_;  ///< those of several ranks
  double waited_s_ = 0.0;
};

}  // namespace lockstep
