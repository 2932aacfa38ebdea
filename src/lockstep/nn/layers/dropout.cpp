#include <lockstep/nn/layers/dropout.hpp>

#include <lockstep/autograd/functional/activation.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/nn/random.hpp>

namespace lockstep::nn {

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

Tensor Dropout2d::channel_scale(std::int64_t samples, std::int64_t channels, DType dtype) const {
  if (!is_training() || p() == 0.0) return {};
  Tensor scale = Tensor::empty({samples, channels}, dtype);
  dropout_scale(p(), key(), scale);
  return scale;
}

}  // namespace lockstep::nn
