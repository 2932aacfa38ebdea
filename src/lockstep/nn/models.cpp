#include <lockstep/nn/models.hpp>

#include <string>

#include <lockstep/base/error.hpp>
#include <lockstep/nn/layers.hpp>

namespace lockstep::nn {

std::shared_ptr<Sequential> convnet(const Shape& image, std::int64_t classes, double dropout) {
  if (image.dims() != 3 || image[1] < 16 || image[2] < 16) {
    throw InputError(
        "model convnet takes images of shape [channels, height, width] of at least 16 x 16 "
        "pixels, not samples of shape " +
        to_string(image) + ". Choose another model.kind or other data.");
  }
  const auto reduced = [](std::int64_t pixels) { return ((pixels - 4) / 2 - 4) / 2; };
  const std::int64_t features = 20 * reduced(image[1]) * reduced(image[2]);
  return std::make_shared<Sequential>(std::initializer_list<Sequential::NamedModule>{
      {"conv1", std::make_shared<Conv2d>(image[0], 10, 5)},
      {"pool1", std::make_shared<MaxPool2d>(2)},
      {"relu1", std::make_shared<ReLU>()},
      {"conv2", std::make_shared<Conv2d>(10, 20, 5)},
      {"conv2_drop", std::make_shared<Dropout2d>(dropout)},
      {"pool2", std::make_shared<MaxPool2d>(2)},
      {"relu2", std::make_shared<ReLU>()},
      {"flatten", std::make_shared<Flatten>()},
      {"fc1", std::make_shared<Linear>(features, 50)},
      {"relu3", std::make_shared<ReLU>()},
      {"drop", std::make_shared<Dropout>(dropout)},
      {"fc2", std::make_shared<Linear>(50, classes)},
      {"log_softmax", std::make_shared<LogSoftmax>()},
  });
}

std::shared_ptr<Sequential> mlp(const Shape& sample, std::int64_t classes,
                                const std::vector<std::int64_t>& hidden) {
  auto model = std::make_shared<Sequential>();
  model->push_back("flatten", std::make_shared<Flatten>());
  std::int64_t features = sample.numel();
  int layer = 0;
  const auto add_linear = [&](std::int64_t outputs) {
    model->push_back("fc" + std::to_string(++layer), std::make_shared<Linear>(features, outputs));
    features = outputs;
  };
  for (const std::int64_t outputs : hidden) {
    add_linear(outputs);
    model->push_back("relu" + std::to_string(layer), std::make_shared<ReLU>());
  }
  add_linear(classes);
  model->push_back("log_softmax", std::make_shared<LogSoftmax>());
  return model;
}

std::shared_ptr<Module> make_model(const ModelOptions& options, const Shape& sample,
                                   std::int64_t classes) {
  switch (options.kind) {
    case ModelOptions::Kind::convnet:
      return convnet(sample, classes, options.dropout);
    case ModelOptions::Kind::mlp:
      return mlp(sample, classes, options.hidden);
  }
  throw Error("internal error: unknown model kind");
}

}  // namespace lockstep::nn
