#pragma once
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include <lockstep/nn/layers/batch_norm.hpp>
#include <lockstep/parallel/gradient_sum.hpp>
#include <lockstep/parallel/held_gradients.hpp>
#include <lockstep/parallel/sharded_step.hpp>

namespace lockstep {

/// The sum over the shards of a batch, in one order whatever ranks hold them. What the parameters
/// had before the step is held aside meanwhile, and added at its end.
class ShardedGradientSum final : public GradientSum {
 public:
  /// `buffers` are the model's. Throws InputError if the group's ranks cannot hold `shards`.
  /// Collective.
  ShardedGradientSum(std::shared_ptr<ProcessGroup> group, std::int64_t shards,
                     std::vector<Tensor> buffers);

  /// For prepare().
  [[nodiscard]] std::shared_ptr<CommHook> hook() const noexcept { return step_.hook(); }
  /// After that: the batch of `layers` is that of all shards from now on, which take turns;
  /// `change` is called between two of them. Collective.
  void synchronise(std::span<nn::BatchNorm* const> layers, ShardTurns::Change change);

  [[nodiscard]] std::int64_t parts() const noexcept override { return step_.own(); }
  [[nodiscard]] std::int64_t first_part() const noexcept override { return step_.first(); }
  [[nodiscard]] double equal_share() const override {
    return 1.0 / static_cast<double>(step_.all());
  }
  [[nodiscard]] bool at_first_part() const noexcept override { return step_.at_first(); }
  [[nodiscard]] bool keeps_part() const noexcept override { return step_.keeps_apart(); }
  void expect_context() const override;
  [[nodiscard]] double loss() const override { return step_.loss(); }

  void forward_begins() override { step_.forward_begins(); }
  [[nodiscard]] GradSink* pass_begins(std::span<const Variable> roots,
                                      std::span<const Tensor> gradients, double seed,
                                      bool weighted) override;
  void scale_part(double factor) override;
  void keep_part(double factor) override;
  void forget_part() noexcept override { step_.forget_at_hand(); }
  void finish() override;
  void give_up() override;
  [[nodiscard]] bool give_up_parts() override;
  void zero_grad() override;
  [[nodiscard]] bool run_in_turns(const std::function<void(std::int64_t)>& body,
                                  const std::function<void()>& before_turns) override;
  [[nodiscard]] GradientSumStats stats() const noexcept override;

 private:
  void hold_aside();
  void give_back();

  ShardedStep step_;
  HeldGradients held_;
  bool is_held_aside_ = false;
};

}  // namespace lockstep
