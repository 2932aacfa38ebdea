#include <lockstep/train/run/run_plan.hpp>

#include <utility>

#include <lockstep/base/error.hpp>
#include <lockstep/deck/deck.hpp>
#include <lockstep/train/run/device_choice.hpp>
#include <lockstep/train/task/task_options.hpp>

namespace lockstep::train {
namespace {

// The one list of tables. All reading uses it, so a resolved deck has its order.

template <class Visit>
void for_each_table(RunPlan& plan, const Visit& visit) {
  visit("run", "where results go, what of the machine a rank uses, and for how long", plan.run);
  visit("train", "the training loop", plan.train);
  visit("eval", "measuring on the validation or test set after each epoch", plan.eval);
  visit("optimizer", "how parameters follow their gradients", plan.optimizer);
  visit("schedule", "how the learning rate moves", plan.schedule);
  visit("averaging", "weights averaged over steps", plan.averaging);
  visit("mesh", "how the ranks share out the batch and the model", plan.mesh);
  visit("pipeline", "how a batch passes through the layers that mesh.pp shares out", plan.pipeline);
  visit("ddp", "data-parallel gradient reduction", plan.ddp);
  visit("checkpoint", "when to save and what to keep", plan.checkpoint);
  visit("log", "how much is said, and how often", plan.log);
  visit("comm", "communication between ranks", plan.group);
  visit("flight", "what is kept for the verdict on a hang", plan.group.flight);
}

}  // namespace

RunPlan read_run_plan(Deck& deck) {
  RunPlan plan;
  for_each_table(plan, [&](const char* name, const char*, auto& options) {
    options = deck.read(name, std::move(options));
  });
  if (plan.checkpoint.local_steps > 0 && plan.checkpoint.local_dir.empty()) {
    throw InputError(
        "checkpoint.local_dir is empty: the default is /dev/shm. To keep no copies set "
        "checkpoint.local_steps = 0.");
  }
  expect_device_text(plan.run.device);
  plan.optimizer = optim::read_optimizer_options(deck);  // conditions between its keys
  return plan;
}

DeckReference deck_reference() {
  DeckReference reference;
  add_task_tables(reference);
  RunPlan plan;
  for_each_table(plan, [&](const char* name, const char* description, const auto& options) {
    reference.add(name, description, options);
  });
  return reference;
}

}  // namespace lockstep::train
