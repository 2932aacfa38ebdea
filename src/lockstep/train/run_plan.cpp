#include <lockstep/train/run_plan.hpp>

#include <lockstep/data/data_options.hpp>
#include <lockstep/deck/deck.hpp>
#include <lockstep/nn/models.hpp>

namespace lockstep::train {

RunPlan read_run_plan(Deck& deck) {
  RunPlan plan;
  plan.run = deck.read<RunOptions>("run");
  plan.train = deck.read<TrainOptions>("train");
  plan.eval = deck.read<EvalOptions>("eval");
  plan.optimizer = optim::read_optimizer_options(deck);
  plan.schedule = deck.read<optim::ScheduleOptions>("schedule");
  plan.ddp = deck.read<DdpOptions>("ddp");
  plan.checkpoint = deck.read<CheckpointOptions>("checkpoint");
  plan.log = deck.read<LogOptions>("log");
  return plan;
}

GroupOptions read_group_options(Deck& deck) {
  auto options = deck.read<GroupOptions>("comm");
  options.flight = deck.read<FlightOptions>("flight");
  return options;
}

std::string deck_reference() {
  DeckReference reference;
  reference.add<RunOptions>("run", "where results go and what of the machine a rank uses");
  reference.add<DataOptions>("data", "what the run trains on and is judged by");
  reference.add<nn::ModelOptions>("model", "the network");
  reference.add<TrainOptions>("train", "the training loop");
  reference.add<ClassLossOptions>("loss", "what a classifier is trained and judged by");
  reference.add<EvalOptions>("eval", "measuring on the test set after each epoch");
  reference.add<optim::OptimizerOptions>("optimizer", "how parameters follow their gradients");
  reference.add<optim::ScheduleOptions>("schedule", "how the learning rate moves");
  reference.add<DdpOptions>("ddp", "data-parallel gradient reduction");
  reference.add<CheckpointOptions>("checkpoint", "when to save and what to keep");
  reference.add<GroupOptions>("comm", "communication between ranks");
  reference.add<FlightOptions>("flight", "what is kept for the verdict on a hang");
  reference.add<LogOptions>("log", "how much is said, and how often");
  return reference.markdown();
}

}  // namespace lockstep::train
