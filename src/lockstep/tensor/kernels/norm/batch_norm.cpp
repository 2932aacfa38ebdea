#include <lockstep/tensor/kernels/norm/batch_norm.hpp>

#include <limits>

#include <lockstep/tensor/kernels/conv/channel_blocks.hpp>
#include <lockstep/tensor/kernels/host_or_kernels.hpp>
#include <lockstep/tensor/kernels/norm/batch_norm_blocks.hpp>
#include <lockstep/tensor/kernels/norm/batch_norm_device.hpp>
#include <lockstep/tensor/kernels/norm/batch_norm_planes.hpp>
#include <lockstep/tensor/sum_dtype.hpp>

namespace lockstep {
namespace {

using detail::planes;

template <class T, class Space>
void forward_kernel(const Space& space, const BatchNormInputs& in, bool training, double momentum,
                    double eps, const Tensor& y, const BatchNormSaved& saved) {
  using Wide = SumOf<T>;
  const Shape shape = planes(in.x);
  const std::int64_t samples = shape[0], positions = shape[2];
  const double count = static_cast<double>(samples * positions);
  const auto x = view<Space, const T, 3>(in.x.reshape(shape));
  const auto out = view<Space, T, 3>(y.reshape(shape));
  const bool has_residual = in.residual.defined();
  const auto residual = view<Space, const T, 3>((has_residual ? in.residual : in.x).reshape(shape));
  const auto weight = view<Space, const Wide, 1>(in.weight);
  const auto bias = view<Space, const Wide, 1>(in.bias);
  const auto running_mean = view<Space, Wide, 1>(in.running_mean);
  const auto running_var = view<Space, Wide, 1>(in.running_var);
  const auto saved_mean = view<Space, Wide, 1>(saved.mean);
  const auto saved_inverse = view<Space, Wide, 1>(saved.inverse_std);
  const Wide least = in.relu ? Wide{0} : -std::numeric_limits<Wide>::infinity();
  for_each_row(
      "lockstep::batch_norm_forward", space, shape[1], positions,
      KOKKOS_LAMBDA(std::int64_t c, const Lanes<Space>& lanes) {
        double mean = running_mean(c), variance = running_var(c);
        if (training) {
          const auto batch = detail::statistics_of_channel<Wide>(x, c, samples, count, lanes);
          mean = batch.mean;
          variance = batch.variance;
          lanes.once([&] {
            const double unbiased = variance * count / (count - 1);
            running_mean(c) = static_cast<Wide>((1 - momentum) * running_mean(c) + momentum * mean);
            running_var(c) =
                static_cast<Wide>((1 - momentum) * running_var(c) + momentum * unbiased);
          });
        }
        const double inverse = 1 / std::sqrt(variance + eps);
        const Wide center = static_cast<Wide>(mean), shift = bias(c);
        const Wide scale = static_cast<Wide>(inverse * weight(c));
        lanes.once([&] {
          saved_mean(c) = center;
          saved_inverse(c) = static_cast<Wide>(inverse);
        });
        for (std::int64_t n = 0; n < samples; ++n) {
          lanes.each([&](std::int64_t p) {
            const Wide more = has_residual ? static_cast<Wide>(residual(n, c, p)) : Wide{0};
            const Wide value = (static_cast<Wide>(x(n, c, p)) - center) * scale + shift + more;
            out(n, c, p) = static_cast<T>(value < least ? least : value);
          });
        }
      });
}

template <class T, class Space>
void backward_kernel(const Space& space, const BatchNormInputs& in, bool training,
                     const BatchNormSaved& saved, const Tensor& y, const Tensor& grad_y,
                     const BatchNormGradients& gradients) {
  using Wide = SumOf<T>;
  const Shape shape = planes(in.x);
  const std::int64_t samples = shape[0], positions = shape[2];
  const double count = static_cast<double>(samples * positions);
  const auto x = view<Space, const T, 3>(in.x.reshape(shape));
  const auto out = view<Space, const T, 3>((in.relu ? y : in.x).reshape(shape));
  const auto g = view<Space, const T, 3>(grad_y.reshape(shape));
  const auto weight = view<Space, const Wide, 1>(in.weight);
  const auto mean = view<Space, const Wide, 1>(saved.mean);
  const auto inverse_std = view<Space, const Wide, 1>(saved.inverse_std);
  // Gradients that are not wanted are not written: these flags skip them.
  const bool want_x = gradients.x.defined(), want_residual = gradients.residual.defined();
  const bool want_weight = gradients.weight.defined(), want_bias = gradients.bias.defined();
  const auto grad_x = view<Space, T, 3>((want_x ? gradients.x : in.x).reshape(shape));
  const auto grad_residual =
      view<Space, T, 3>((want_residual ? gradients.residual : in.x).reshape(shape));
  const auto grad_weight = view<Space, Wide, 1>(want_weight ? gradients.weight : saved.mean);
  const auto grad_bias = view<Space, Wide, 1>(want_bias ? gradients.bias : saved.mean);
  const bool add_x = gradients.accumulate_x, add_weight = gradients.accumulate_weight;
  const bool add_bias = gradients.accumulate_bias, add_residual = gradients.accumulate_residual;
  // Nothing is below or equal to NaN, so without relu every gradient passes.
  const Wide closed = in.relu ? Wide{0} : std::numeric_limits<Wide>::quiet_NaN();
  for_each_row(
      "lockstep::batch_norm_backward", space, shape[1], positions,
      KOKKOS_LAMBDA(std::int64_t c, const Lanes<Space>& lanes) {
        const Wide center = mean(c), inverse = inverse_std(c), scale = weight(c) * inverse;
        const auto passed = [&](std::int64_t n, std::int64_t p) {
          const Wide gradient = static_cast<Wide>(g(n, c, p));
          return static_cast<Wide>(out(n, c, p)) <= closed ? Wide{0} : gradient;
        };
        const auto distance = [&](std::int64_t n, std::int64_t p) {
          return static_cast<Wide>(x(n, c, p)) - center;
        };
        double total = 0, product = 0;
        for (std::int64_t n = 0; n < samples; ++n) {
          total += lanes.sum([&](std::int64_t p) { return passed(n, p); });
          product += lanes.sum([&](std::int64_t p) { return passed(n, p) * distance(n, p); });
        }
        lanes.once([&] {
          if (want_weight) {
            const Wide value = static_cast<Wide>(product * inverse);
            grad_weight(c) = add_weight ? grad_weight(c) + value : value;
          }
          if (want_bias) {
            const Wide value = static_cast<Wide>(total);
            grad_bias(c) = add_bias ? grad_bias(c) + value : value;
          }
        });
        const Wide mean_g = training ? static_cast<Wide>(total / count) : Wide{0};
        const Wide slope =
            training ? static_cast<Wide>(product / count * inverse * inverse) : Wide{0};
        const auto store = [&](T& to, bool add, Wide value) {
          to = static_cast<T>(add ? static_cast<Wide>(to) + value : value);
        };
        for (std::int64_t n = 0; n < samples; ++n) {
          if (want_residual) {
            lanes.each(
                [&](std::int64_t p) { store(grad_residual(n, c, p), add_residual, passed(n, p)); });
          }
          if (want_x) {
            lanes.each([&](std::int64_t p) {
              store(grad_x(n, c, p), add_x,
                    scale * (passed(n, p) - mean_g - distance(n, p) * slope));
            });
          }
        }
      });
}

}  // namespace

void check_batch_norm(const BatchNormInputs& in, bool training) {
  const auto complain = [&](const std::string& why) {
    throw ShapeError("batch_norm of x " + describe(in.x) + ": " + why);
  };
  if (in.x.dims() < 2) complain("x must be [N, C, ...]");
  const Shape channels{plain_shape(in.x)[1]};
  const auto expect_channels = [&](const char* what, const Tensor& t) {
    const DType dtype = sum_dtype(in.x.dtype());
    if (t.shape() != channels || t.dtype() != dtype) {
      complain(std::string(what) + " must be [C] = " + to_string(channels) + " of " +
               std::string(name_of(dtype)) + ", not " + describe(t));
    }
  };
  expect_channels("weight", in.weight);
  expect_channels("bias", in.bias);
  expect_channels("running_mean", in.running_mean);
  expect_channels("running_var", in.running_var);
  if (in.residual.defined() &&
      (in.residual.shape() != in.x.shape() || in.residual.dtype() != in.x.dtype() ||
       in.residual.layout() != in.x.layout())) {
    complain("the residual must be like x, not " + describe(in.residual));
  }
  if (training && in.x.numel() == channels[0] && in.x.numel() > 0) {
    complain(
        "in training each channel needs more than one value; use larger batches or images, or "
        "leave out the last, smaller batch");
  }
}

void batch_norm_forward(const BatchNormInputs& inputs, bool training, double momentum, double eps,
                        const Tensor& y, const BatchNormSaved& saved) {
  if (math::device_math(inputs.x.device()) != nullptr) {
    detail::batch_norm_device_forward(inputs, training && inputs.x.numel() > 0, momentum, eps, y,
                                      saved);
    return;
  }
  if (is_channel_blocked(inputs.x)) {
    detail::batch_norm_blocks_forward(inputs, training && inputs.x.numel() > 0, momentum, eps, y,
                                      saved);
    return;
  }
  dispatch_to_host(current_stream(inputs.x.device()), [&](const HostExecutionSpace& space) {
    dispatch_stored(inputs.x.dtype(), "batch_norm", [&]<class T>() {
      forward_kernel<T>(space, inputs, training && inputs.x.numel() > 0, momentum, eps, y, saved);
    });
  });
}

void batch_norm_backward(const BatchNormInputs& inputs, bool training, const BatchNormSaved& saved,
                         const Tensor& y, const Tensor& grad_y,
                         const BatchNormGradients& gradients) {
  if (math::device_math(inputs.x.device()) != nullptr) {
    detail::batch_norm_device_backward(inputs, training && inputs.x.numel() > 0, saved, y, grad_y,
                                       gradients);
    return;
  }
  if (is_channel_blocked(inputs.x)) {
    detail::batch_norm_blocks_backward(inputs, training && inputs.x.numel() > 0, saved, y, grad_y,
                                       gradients);
    return;
  }
  dispatch_to_host(current_stream(inputs.x.device()), [&](const HostExecutionSpace& space) {
    dispatch_stored(inputs.x.dtype(), "batch_norm", [&]<class T>() {
      backward_kernel<T>(space, inputs, training && inputs.x.numel() > 0, saved, y, grad_y,
                         gradients);
    });
  });
}

}  // namespace lockstep
