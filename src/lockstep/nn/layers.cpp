#include <lockstep/nn/layers.hpp>

#include <lockstep/base/error.hpp>
#include <lockstep/nn/init.hpp>
#include <lockstep/nn/random.hpp>

namespace lockstep::nn {
namespace {

void expect_positive(const char* layer, const char* what, std::int64_t value) {
  if (value < 1) {
    throw InputError(std::string(layer) + ": " + what + " must be at least 1, not " +
                     std::to_string(value));
  }
}

}  // namespace

Linear::Linear(std::int64_t in_features, std::int64_t out_features, bool bias) {
  expect_positive("Linear", "in_features", in_features);
  expect_positive("Linear", "out_features", out_features);
  weight_ = register_parameter("weight", default_weight({out_features, in_features}));
  if (bias) bias_ = register_parameter("bias", default_bias(out_features, in_features));
}

Variable Linear::forward(const Variable& x) { return linear(x, weight_, bias_); }

Conv2d::Conv2d(std::int64_t in_channels, std::int64_t out_channels, std::int64_t kernel,
               const Conv2dOptions& options, bool bias)
    : options_(options) {
  expect_positive("Conv2d", "in_channels", in_channels);
  expect_positive("Conv2d", "out_channels", out_channels);
  expect_positive("Conv2d", "kernel", kernel);
  expect_positive("Conv2d", "groups", options.groups);
  if (in_channels % options.groups != 0 || out_channels % options.groups != 0) {
    throw InputError("Conv2d: groups (" + std::to_string(options.groups) +
                     ") must divide in_channels (" + std::to_string(in_channels) +
                     ") and out_channels (" + std::to_string(out_channels) + ")");
  }
  const Shape shape{out_channels, in_channels / options.groups, kernel, kernel};
  weight_ = register_parameter("weight", default_weight(shape));
  if (bias)
    bias_ = register_parameter("bias", default_bias(out_channels, shape.numel() / out_channels));
}

Variable Conv2d::forward(const Variable& x) { return conv2d(x, weight_, bias_, options_); }

Variable MaxPool2d::forward(const Variable& x) { return max_pool2d(x, options_); }

Variable ReLU::forward(const Variable& x) { return relu(x); }

Dropout::Dropout(double p) : p_(p), stream_(next_random_stream()) {
  if (!(p >= 0.0 && p < 1.0)) {
    throw InputError("Dropout: the probability must be at least 0 and below 1, not " +
                     std::to_string(p));
  }
}

RandomKey Dropout::key() const {
  const RandomContext& context = random_context();
  return {context.seed, stream_, context.step, context.first_sample};
}

Variable Dropout::forward(const Variable& x) {
  return is_training() && p_ > 0.0 ? dropout(x, p_, key()) : x;
}

Variable Dropout2d::forward(const Variable& x) {
  return is_training() && p() > 0.0 ? dropout2d(x, p(), key()) : x;
}

Tensor Dropout2d::channel_scale(std::int64_t samples, std::int64_t channels) const {
  if (!is_training() || p() == 0.0) return {};
  Tensor scale = Tensor::empty({samples, channels});
  dropout_scale(p(), key(), scale);
  return scale;
}

Variable LogSoftmax::forward(const Variable& x) { return log_softmax(x, dim_); }

Variable Flatten::forward(const Variable& x) { return flatten(x); }

}  // namespace lockstep::nn
