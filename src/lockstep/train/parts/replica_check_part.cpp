#include <fmt/format.h>

#include <memory>

#include <lockstep/nn/module.hpp>
#include <lockstep/optim/optimizer.hpp>
#include <lockstep/parallel/distributed_data_parallel.hpp>
#include <lockstep/parallel/replica_check.hpp>
#include <lockstep/train/parts/library_parts.hpp>
#include <lockstep/train/run/failures.hpp>

namespace lockstep::train {
namespace {

/// The part for train.check_replicas_every: AgreedError if the ranks' states differ.
class ReplicaCheckPart final : public TrainingPart {
 public:
  explicit ReplicaCheckPart(std::int64_t every) : every_(every) {}

  [[nodiscard]] std::string name() const override { return "replica_check"; }

  void check(const Task& /*task*/, const RunPlan& plan) const override {
    if (!ranks_go_apart(plan)) return;
    throw InputError(
        "train.check_replicas_every needs equal replicas, but with ddp.comm_hook = "
        "\"post_local_sgd\" they differ. Set it to 0.");
  }
  void begin(const Training& training) override {
    StateDict state;
    for (const auto& [name, parameter] : training.model.named_parameters())
      state.insert(name, parameter.data());
    state.insert_all("optimizer/", training.optimizer.state_dict());
    check_ = std::make_unique<ReplicaCheck>(training.data_group, std::move(state));
  }
  void after_step(const Training& training, const StepResult& /*step*/) override {
    if (training.state.step % every_ == 0) compare(training.state);
  }
  void before_save(const Training& training) override { compare(training.state); }

 private:
  void compare(const TrainState& at) {
    if (compared_step_ == at.step) return;
    if (const auto difference = check_->compare()) {
      throw AgreedError(
          fmt::format("the ranks' replicas are not equal after step {} (epoch {}): {}. A memory, a "
                      "processor or a link may be faulty: check it, or leave the machine out, and "
                      "continue with --resume. This state was not saved.",
                      at.step, at.epoch + (at.position > 0 ? 1 : 0), difference->text),
          ExitCode::failure);
    }
    compared_step_ = at.step;
  }

  std::int64_t every_;
  std::unique_ptr<ReplicaCheck> check_;
  std::int64_t compared_step_ = -1;  ///< the last at which replicas were found equal
};

}  // namespace

std::shared_ptr<TrainingPart> make_replica_check_part(const RunPlan& plan) {
  const std::int64_t every = plan.train.check_replicas_every;
  return every > 0 ? std::make_shared<ReplicaCheckPart>(every) : nullptr;
}

}  // namespace lockstep::train
