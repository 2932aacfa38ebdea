#include <lockstep/lockstep.hpp>
#include <lockstep/tensor/kernels/elementwise/elementwise.hpp>

using namespace lockstep;

// Quasi-hyperbolic momentum (Ma, Yarats 2019, arXiv:1810.06801): a step is a mean of the gradient
// and of its running mean.
struct QhmOptions {
  double lr = 1.0;
  double momentum = 0.999;
  double nu = 0.7;
  double weight_decay = 0.0;
};
void declare(DeckTable& table, QhmOptions& options) {
  table.key("lr", options.lr, {.doc = "learning rate", .min = 0.0});
  table.key("momentum", options.momentum,
            {.doc = "how much the running mean keeps", .min = 0.0, .max = 1.0});
  table.key("nu", options.nu,
            {.doc = "share of the running mean in a step", .min = 0.0, .max = 1.0});
  table.key("weight_decay", options.weight_decay,
            {.doc = "factor of the parameter that is taken from it in a step of rate 1"});
}

class Qhm : public optim::OptimizerOf<QhmOptions> {
 public:
  Qhm(std::vector<nn::NamedParameter> parameters, const QhmOptions& options,
      const std::vector<optim::ParameterGroup>& groups)
      : OptimizerOf(std::move(parameters), options, groups,
                    {.name = "Qhm", .slots = {{"exp_avg"}}}) {}

 private:
  void update(const Run& run) override {
    const QhmOptions& options = options_of(run);
    const Tensor& mean = run.slots[0];
    scale(mean, options.momentum);
    add_scaled(run.gradient, run.gradient_factor * (1.0 - options.momentum), mean);
    scale(run.parameter, 1.0 - run.lr * run.weight_decay);
    add_scaled(run.gradient, run.gradient_factor * run.lr * (options.nu - 1.0), run.parameter);
    add_scaled(mean, -run.lr * options.nu, run.parameter);
  }
};

int main(int argc, char** argv) {
  optim::register_optimizer<Qhm, QhmOptions>("qhm", "quasi-hyperbolic momentum");
  train::App app("own_optimizer", "Trains an image classifier with an optimizer of its own.",
                 [](Deck& deck) { return std::make_unique<train::Classification>(deck); });
  return app.run(argc, argv);
}
