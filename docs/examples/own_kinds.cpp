#include <cmath>
#include <numbers>

#include <lockstep/lockstep.hpp>

using namespace lockstep;

// [schedule] kind = "inverse_sqrt"
struct InverseSqrt {
  double timescale = 1.0;
  optim::LinearWarmup warmup;  // the keys warmup and start_factor

  double lr(double base_lr, std::int64_t k) const {
    return base_lr / std::sqrt(1.0 + static_cast<double>(k) / timescale);
  }
};
void declare(DeckTable& table, InverseSqrt& options) {
  table.key("timescale", options.timescale, {.doc = "of the fall", .min = 0.0, .above_min = true});
  declare(table, options.warmup);
}

// [model] kind = "residual"
struct ResidualOptions {
  std::int64_t width = 16, depth = 2;

  std::shared_ptr<nn::Module> make(const nn::ModelFit& fit) const {
    fit.expect_numbers();
    auto model = std::make_shared<nn::Sequential>();
    model->push_back("in", std::make_shared<nn::Linear>(fit.sample.numel(), width));
    for (std::int64_t i = 1; i <= depth; ++i) {
      auto block = std::make_shared<nn::Sequential>();
      block->push_back("fc", std::make_shared<nn::Linear>(width, width));
      block->push_back("tanh", std::make_shared<nn::Tanh>());
      model->push_back("block" + std::to_string(i), std::make_shared<nn::Residual>(block));
    }
    model->push_back("out", std::make_shared<nn::Linear>(width, fit.outputs()));
    return model;
  }
};
void declare(DeckTable& table, ResidualOptions& options) {
  table.key("width", options.width, {.doc = "features of each layer", .min = 1});
  table.key("depth", options.depth, {.doc = "layers with a path around them", .min = 0});
}

// [loss] kind = "log_cosh": half the square of a small error, the size of a large one less log 2.
struct LogCosh {
  Variable loss(const Variable& output, const Tensor& targets) const {
    const Variable error = abs(output - Variable(targets));
    return mean(error + softplus(-2.0 * error) - std::log(2.0));
  }
};
void declare(DeckTable&, LogCosh&) {}

// [data] kind = "wave": one period of a sine.
struct WaveOptions {
  std::int64_t samples = 64;

  Datasets make(const DataOptions& all, TargetKind, Sets) const {
    const auto points = [&](double offset) {
      std::vector<float> x, y;
      for (std::int64_t i = 0; i < samples; ++i) {
        const double at = (static_cast<double>(i) + offset) / static_cast<double>(samples);
        x.push_back(static_cast<float>(at));
        y.push_back(static_cast<float>(std::sin(2.0 * std::numbers::pi * at)));
      }
      return std::make_shared<const TensorDataset>(Tensor::from(x, {samples, 1}),
                                                   Tensor::from(y, {samples, 1}), 0, "the wave");
    };
    return {.train = points(0.0),
            .test = all.test_set ? points(0.5) : nullptr,
            .augmentation = {},
            .facts = {.input = "x", .target = "y"}};
  }
};
void declare(DeckTable& table, WaveOptions& options) {
  table.key("samples", options.samples, {.doc = "of the training and of the test set", .min = 1});
}

int main(int argc, char** argv) {
  optim::register_schedule<InverseSqrt>("inverse_sqrt", "the rate falls as 1 / sqrt(k)");
  nn::register_model<ResidualOptions>("residual", "linear layers with paths around them");
  train::register_loss<LogCosh>("log_cosh", "logarithm of the errors' hyperbolic cosine");
  register_data<WaveOptions>("wave", "one period of a sine");
  train::App app("own_kinds", "Fits values with kinds of its own.",
                 [](Deck& deck) { return std::make_unique<train::Regression>(deck); });
  return app.run(argc, argv);
}
