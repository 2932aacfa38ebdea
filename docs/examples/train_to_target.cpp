#include <lockstep/lockstep.hpp>

using namespace lockstep;

struct TargetOptions {
  double loss = 0.1;
  std::int64_t epochs = 2;
};
void declare(DeckTable& table, TargetOptions& options) {
  table.key("loss", options.loss, {.doc = "of the evaluation, to come below"});
  table.key("epochs", options.epochs, {.doc = "in a row", .min = 1});
}

// Ends the training once it is good enough.
struct Target : train::TrainingPart {
  TargetOptions options;
  std::int64_t below = 0;  // epochs in a row

  std::string name() const override { return "target"; }
  void evaluated(const train::Training&, const train::Evaluation& found) override {
    below = found.loss < options.loss ? below + 1 : 0;
  }
  bool is_over() const override { return below >= options.epochs; }
  void save(train::PartState& state) const override { state.set_count("below", below); }
  void restore(const train::Training&, train::PartState& state) override {
    below = state.count("below").value_or(0);
  }
};

int main(int argc, char** argv) {
  train::App app("train_to_target", "Trains a classifier until it is good enough.",
                 [](Deck& deck) { return std::make_unique<train::Classification>(deck); });
  app.add_part([](Deck& deck) {
    auto target = std::make_shared<Target>();
    target->options = deck.read<TargetOptions>("target");
    return target;
  });
  return app.run(argc, argv);
}
