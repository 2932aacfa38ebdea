// A program with a task of its own: classify, with its loss multiplied by a number from a table of
// its own.
#include <memory>

#include <lockstep/autograd/functional.hpp>
#include <lockstep/deck/deck.hpp>
#include <lockstep/train/app.hpp>
#include <lockstep/train/task/classification.hpp>

namespace {

struct MyOptions {
  double factor = 1.0;
};

void declare(lockstep::DeckTable& table, MyOptions& options) {
  table.key("factor", options.factor, {.doc = "of the loss", .min = 0.0});
}

class Scaled : public lockstep::train::Classification {
 public:
  explicit Scaled(lockstep::Deck& deck)
      : Classification(deck), factor_(deck.read<MyOptions>("my_task").factor) {}

  lockstep::Variable loss(const lockstep::Variable& output,
                          const lockstep::Batch& batch) const override {
    return Classification::loss(output, batch) * factor_;
  }

 private:
  double factor_;
};

}  // namespace

int main(int argc, char** argv) {
  return lockstep::train::App("own_task", "classify with a scaled loss",
                              [](lockstep::Deck& deck) { return std::make_unique<Scaled>(deck); })
      .run(argc, argv);
}
