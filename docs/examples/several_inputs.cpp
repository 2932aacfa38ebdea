#include <lockstep/lockstep.hpp>

using namespace lockstep;

// Numbers, and which of three materials they were measured on.
struct Net : nn::Module {
  std::shared_ptr<nn::Embedding> material =
      register_module("material", std::make_shared<nn::Embedding>(3, 4));
  std::shared_ptr<nn::Linear> hidden =
      register_module("hidden", std::make_shared<nn::Linear>(2 + 4, 32));
  std::shared_ptr<nn::Linear> out = register_module("out", std::make_shared<nn::Linear>(32, 1));

  using Module::forward;
  Variable forward(const Variable& numbers, const Variable& materials) {
    return (*out)(tanh((*hidden)(concat({numbers, (*material)(materials)}, 1))));
  }
};

struct Measured : train::Regression {
  using Regression::Regression;
  std::shared_ptr<nn::Module> make_model() const override { return std::make_shared<Net>(); }
  Variable forward(nn::Module& model, const Batch& batch) const override {
    return static_cast<Net&>(model).forward(Variable(batch.inputs(0)), Variable(batch.inputs(1)));
  }
};

int main(int argc, char** argv) {
  train::App app("several_inputs", "Fits numbers that were measured on several materials.",
                 [](Deck& deck) { return std::make_unique<Measured>(deck); });
  return app.run(argc, argv);
}
