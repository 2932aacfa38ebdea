#include <lockstep/nn/models/convnet.hpp>

#include <string>

#include <lockstep/base/error.hpp>
#include <lockstep/deck/deck.hpp>
#include <lockstep/nn/layers.hpp>

namespace lockstep::nn {

std::shared_ptr<Sequential> convnet(const Shape& image, std::int64_t outputs, double dropout,
                                    Head head) {
  if (image.dims() != 3 || image[1] < 16 || image[2] < 16) {
    throw InputError(
        "model convnet takes images of shape [channels, height, width] of at least 16 x 16 "
        "pixels, not samples of shape " +
        to_string(image) + ". Choose another model.kind or other data.");
  }
  const auto reduced = [](std::int64_t pixels) { return ((pixels - 4) / 2 - 4) / 2; };
  const std::int64_t features = 20 * reduced(image[1]) * reduced(image[2]);
  auto model = std::make_shared<Sequential>(std::initializer_list<Sequential::NamedModule>{
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
      {"fc2", std::make_shared<Linear>(50, outputs)},
  });
  if (head == Head::log_probabilities)
    model->push_back("log_softmax", std::make_shared<LogSoftmax>());
  return model;
}

std::shared_ptr<Module> ConvnetOptions::make(const ModelFit& fit) const {
  fit.expect_numbers();
  return convnet(fit.sample, fit.outputs(), dropout, fit.head);
}

void declare(DeckTable& table, ConvnetOptions& options) {
  table.key("dropout", options.dropout,
            {.doc = "probability of each dropout layer", .min = 0.0, .max = 0.99});
}

}  // namespace lockstep::nn
