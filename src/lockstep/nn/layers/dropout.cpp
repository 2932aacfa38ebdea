#include <lockstep/nn/layers/dropout.hpp>

#include <lockstep/autograd/functional/activation.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/nn/partition.hpp>

namespace lockstep::nn {

Dropout::Dropout(double p) : p_(p) {
  if (!(p >= 0.0 && p <= 1.0)) {
    throw InputError("Dropout: the probability must be from 0 to 1, not " + std::to_string(p));
  }
}

Variable Dropout::forward(const Variable& x) {
  if (!is_training() || p_ == 0.0) return x;
  const Partition* const ranks = partition();
  return ranks ? ranks->dropout(x, p_, next_key()) : dropout(x, p_, next_key());
}

bool drops_elements(const Module& module) noexcept {
  const auto* const any = dynamic_cast<const Dropout*>(&module);
  return any && !dynamic_cast<const Dropout1d*>(any) && !dynamic_cast<const Dropout2d*>(any) &&
         !dynamic_cast<const Dropout3d*>(any);
}

Variable Dropout2d::forward(const Variable& x) {
  return is_training() && p() > 0.0 ? dropout2d(x, p(), next_key()) : x;
}

Tensor Dropout2d::channel_scale(std::int64_t samples, std::int64_t channels, DType dtype,
                                Device device) {
  if (!is_training() || p() == 0.0) return {};
  Tensor scale = Tensor::empty({samples, channels}, dtype, device);
  dropout_scale(p(), next_key(), scale);
  return scale;
}

Variable Dropout1d::forward(const Variable& x) {
  return is_training() && p() > 0.0 ? dropout1d(x, p(), next_key()) : x;
}

Variable Dropout3d::forward(const Variable& x) {
  return is_training() && p() > 0.0 ? dropout3d(x, p(), next_key()) : x;
}

}  // namespace lockstep::nn
