// Every optimizer and every schedule in a whole run: it learns, and resumed from the middle it ends
// with the same bits.
#include <gtest/gtest.h>

#include <lockstep/checkpoint/folder_of_checkpoints.hpp>
#include <lockstep/checkpoint/reader.hpp>
#include <lockstep/comm/threads_group.hpp>
#include <lockstep/deck/deck.hpp>
#include <lockstep/tensor/math_libraries.hpp>
#include <lockstep/train/report/console.hpp>
#include <lockstep/train/report/metrics.hpp>
#include <lockstep/train/run/run_folder.hpp>
#include <lockstep/train/run/run_plan.hpp>
#include <lockstep/train/task/classification.hpp>
#include <lockstep/train/trainer.hpp>
#include <support/process.hpp>

namespace lockstep::train {
namespace {

struct Case {
  const char* name;
  std::vector<std::string> overrides;
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

const Case cases[] = {
    {"sgd_one_cycle",
     {"optimizer.lr=0.2", "optimizer.momentum=0.9", "schedule.kind='one_cycle'",
      "schedule.unit='step'"}},
    {"sgd_step_by_epoch",
     {"optimizer.lr=0.3", "schedule.kind='step'", "schedule.step_size=2", "schedule.gamma=0.5"}},
    {"adam_one_cycle_clip_norm",
     {"optimizer.kind='adam'", "optimizer.lr=0.01", "optimizer.amsgrad=true",
      "optimizer.clip_norm=0.5", "schedule.kind='one_cycle'", "schedule.unit='step'"}},
    {"adamw_warmup_cosine_groups",
     {"optimizer.kind='adamw'", "optimizer.lr=0.01", "optimizer.group_pattern=['*.bias', 'fc1.*']",
      "optimizer.group_lr_factor=[2.0, 0.5]", "optimizer.group_weight_decay=[0.0, 0.1]",
      "schedule.kind='warmup_cosine'", "schedule.unit='step'", "schedule.warmup=3"}},
    {"adamw_warmup_then_cosine_by_epoch",
     {"optimizer.kind='adamw'", "optimizer.lr=0.01", "schedule.kind='cosine'", "schedule.t_max=3",
      "schedule.warmup=1"}},
    {"lars_exponential_clip_value",
     {"optimizer.kind='lars'", "optimizer.lr=20", "optimizer.weight_decay=1e-4",
      "optimizer.not_adapted=['*.bias']", "optimizer.group_pattern=['*.bias']",
      "optimizer.group_lr_factor=[0.001]", "optimizer.clip_value=0.1",
      "schedule.kind='exponential'", "schedule.gamma=0.9"}},
    {"sgd_cosine_restarts",
     {"optimizer.lr=0.2", "schedule.kind='cosine_restarts'", "schedule.unit='step'",
      "schedule.t_0=5"}},
    {"sgd_polynomial", {"optimizer.lr=0.2", "schedule.kind='polynomial'", "schedule.unit='step'"}},
    {"ema", {"optimizer.lr=0.2", "averaging.kind='ema'", "averaging.decay=0.5"}},
    {"swa_with_batch_norm",
     {"optimizer.lr=0.2", "averaging.kind='swa'", "averaging.start_epoch=2",
      "averaging.every_steps=1", "model.norm='batch'"}},
    {"lamb_multistep",
     {"optimizer.kind='lamb'", "optimizer.lr=0.05", "optimizer.weight_decay=0.01",
      "schedule.kind='multistep'", "schedule.unit='step'", "schedule.milestones=[12, 18, 22]"}},
};

class Optimizers : public testing::TestWithParam<Case> {
 protected:
  /// Trains, from a checkpoint if one is named, saving after every fourth step.
  MetricsFile train(const std::string& folder, const std::string& from = "") {
    MetricsFile metrics;
    run_ranks_as_threads(1, [&](ProcessGroup& group) {
      set_math_threads(1);
      auto deck = Deck::parse(R"(
        data = {kind = "synthetic", synthetic_samples = 120, synthetic_test_samples = 50, synthetic_image_size = 8}
        model = {kind = "mlp", hidden = [16]}
        train = {epochs = 4, batch_size = 20}
        checkpoint = {every_steps = 4, keep = 0}
        log = {every_steps = 1}
      )",
                              "optimizers_test", GetParam().overrides);
      const RunPlan plan = read_run_plan(deck);
      const Classification task(deck);
      Trainer::check(task, plan);
      Trainer trainer(std::shared_ptr<ProcessGroup>(&group, [](ProcessGroup*) {}), task, plan);
      if (!from.empty()) trainer.restore(load_checkpoint(from));
      const auto run_folder = RunFolder::open(group, {.dir = scratch_.file(folder)}, false);
      metrics = MetricsFile(run_folder.file("metrics.jsonl"));
      Console console(0);
      trainer.run(run_folder, metrics, console, deck.resolved());
    });
    return metrics;
  }

  [[nodiscard]] std::string checkpoint(const std::string& folder, std::int64_t step) const {
    return checkpoint_path(scratch_.file(folder) + "/checkpoints", step).string();
  }

  test::ScratchFolder scratch_;
};

INSTANTIATE_TEST_SUITE_P(Decks, Optimizers, testing::ValuesIn(cases),
                         [](const auto& tested) { return std::string(tested.param.name); });

void expect_same_bits(const StateDict& a, const StateDict& b) {
  ASSERT_EQ(a.size(), b.size());
  for (const auto& entry : a) {
    const auto bits = [](const Tensor& t) { return t.to(DType::f64).to_vector<double>(); };
    EXPECT_EQ(bits(entry.tensor), bits(b.at(entry.name))) << entry.name;
  }
}

TEST_P(Optimizers, LearnAndResumeToTheSameBitsRatesAndNorms) {
  const MetricsFile whole = train("whole");
  const auto end = load_checkpoint(checkpoint("whole", 24));
  for (const std::int64_t step : {4, 20}) {  // in the middle of an epoch; step 24 is the last
    const std::string name = "from_" + std::to_string(step);
    const MetricsFile rest = train(name, checkpoint("whole", step));
    const auto resumed = load_checkpoint(checkpoint(name, 24));
    expect_same_bits(end.model, resumed.model);
    expect_same_bits(end.optimizer, resumed.optimizer);
    for (const MetricsRow& row : rest.rows()) {
      for (const MetricsRow& first : whole.rows()) {
        if (row.kind != "step" || first.kind != "step" || row.step != first.step) continue;
        EXPECT_EQ(row.lr, first.lr) << "step " << row.step;
        EXPECT_EQ(row.grad_norm, first.grad_norm) << "step " << row.step;
        EXPECT_EQ(row.loss, first.loss) << "step " << row.step;
      }
    }
  }
  const bool clips_norm = end.deck.find("clip_norm = 0.5") != std::string::npos;
  std::vector<double> losses;
  for (const MetricsRow& row : whole.rows()) {
    if (row.kind == "epoch") losses.push_back(row.loss);
    if (row.kind == "step") {
      EXPECT_EQ(row.grad_norm >= 0, clips_norm);
    }
  }
  ASSERT_EQ(losses.size(), 4U);
  EXPECT_LT(losses.back(), 0.8 * losses.front());
}

}  // namespace
}  // namespace lockstep::train
