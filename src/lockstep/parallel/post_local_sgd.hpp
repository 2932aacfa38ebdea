#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include <lockstep/parallel/comm_hook.hpp>

namespace lockstep {

/// Post-local SGD (Lin et al. 2018, arXiv:1808.07217). Gradients are summed over all ranks in the
/// first `start_step` steps, and over this rank's subgroup afterwards. From then on a
/// PeriodicModelAverager with as many warm-up steps must average the parameters over all ranks. In
/// a subgroup of m of n ranks weights are multiplied by n / m, so that equal weights sum to 1 there
/// too. With unequal weights, one step of SGD and an average over all ranks still give exactly the
/// step of the global batch's gradient.
class PostLocalSgdHook final : public CommHook {
 public:
  /// Without a subgroup each rank keeps its own gradients. Throws InputError for a negative step.
  PostLocalSgdHook(std::shared_ptr<ProcessGroup> subgroup, std::int64_t start_step);

  [[nodiscard]] std::string name() const override;
  void prepare(ProcessGroup& group, std::span<const Bucket> buckets) override;
  [[nodiscard]] double weight_factor() const override { return is_local() ? local_factor_ : 1.0; }
  [[nodiscard]] bool sums_over_all() const override { return weight_factor() == 1.0; }
  [[nodiscard]] Work start(ProcessGroup& group, const Bucket& bucket, std::size_t index) override;
  [[nodiscard]] std::int64_t bytes_sent(const Bucket& bucket, std::size_t index) const override;

 private:
  [[nodiscard]] bool is_local() const noexcept { return step() >= start_step_; }

  std::shared_ptr<ProcessGroup> subgroup_;
  std::int64_t start_step_;
  double local_factor_ = 1.0;
};

}  // namespace lockstep
