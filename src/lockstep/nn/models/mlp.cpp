#include <lockstep/nn/models/mlp.hpp>

#include <string>

#include <lockstep/nn/layers.hpp>

namespace lockstep::nn {

std::shared_ptr<Sequential> mlp(const Shape& sample, std::int64_t outputs,
                                const std::vector<std::int64_t>& hidden, Head head) {
  auto model = std::make_shared<Sequential>();
  model->push_back("flatten", std::make_shared<Flatten>());
  std::int64_t features = sample.numel();
  int layer = 0;
  const auto add_linear = [&](std::int64_t width) {
    model->push_back("fc" + std::to_string(++layer), std::make_shared<Linear>(features, width));
    features = width;
  };
  for (const std::int64_t width : hidden) {
    add_linear(width);
    model->push_back("relu" + std::to_string(layer), std::make_shared<ReLU>());
  }
  add_linear(outputs);
  if (head == Head::log_probabilities)
    model->push_back("log_softmax", std::make_shared<LogSoftmax>());
  return model;
}

}  // namespace lockstep::nn
