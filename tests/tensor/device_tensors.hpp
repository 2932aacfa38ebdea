#pragma once
#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <lockstep/tensor/runtime/simulated_runtime.hpp>
#include <lockstep/tensor/tensor.hpp>
#include <support/test_devices.hpp>

namespace lockstep::test {

/// What a kernel takes and gives, on one device; the inputs are the same on each.
class DeviceTensors {
 public:
  explicit DeviceTensors(Device device) : device_(device) {}

  [[nodiscard]] Tensor input(const Shape& shape) {
    std::vector<float> values(static_cast<std::size_t>(shape.numel()));
    ++inputs_;
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<float>(std::sin(static_cast<double>(i) * 0.7 + inputs_));
    }
    return Tensor::from(values, shape).to(device_);
  }
  /// Numbers of which many are equal, and some NaN.
  [[nodiscard]] Tensor ties(const Shape& shape) {
    std::vector<float> values(static_cast<std::size_t>(shape.numel()));
    ++inputs_;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto number = (i * 7 + static_cast<std::size_t>(inputs_)) % 23;
      values[i] = number == 0 ? NAN : number == 1 ? -INFINITY : static_cast<float>(number % 5);
    }
    return Tensor::from(values, shape).to(device_);
  }
  [[nodiscard]] Tensor classes(const Shape& shape, std::int64_t count) const {
    std::vector<std::int64_t> values(static_cast<std::size_t>(shape.numel()));
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<std::int64_t>(i * 7) % count;
    }
    return Tensor::from(values, shape).to(device_);
  }
  /// i64.
  [[nodiscard]] Tensor integers(const std::vector<std::int64_t>& values) const {
    return Tensor::from(values, {static_cast<std::int64_t>(values.size())}).to(device_);
  }
  [[nodiscard]] Tensor output(const Shape& shape, DType dtype = DType::f32) {
    outputs_.push_back(Tensor::zeros(shape, dtype, device_));
    return outputs_.back();
  }
  /// Of each output.
  [[nodiscard]] std::vector<std::vector<double>> numbers() const {
    std::vector<std::vector<double>> all;
    for (const Tensor& t : outputs_) all.push_back(t.to(DType::f64).to_vector<double>());
    return all;
  }

 private:
  Device device_;
  int inputs_ = 0;
  std::vector<Tensor> outputs_;
};

using DeviceKernel = void (*)(DeviceTensors& t);

class DeviceKernels : public testing::TestWithParam<Device> {
 protected:
  /// `tolerance` of a simulated device, relative to the largest number.
  static void expect_like_host(DeviceKernel kernel, double tolerance = 0) {
    DeviceTensors host{Device{}};
    kernel(host);
    const auto expected = host.numbers();
    ASSERT_FALSE(expected.empty());
    for (std::uint64_t seed = 0; seed < 2; ++seed) {
      SimulatedRuntime::instance().set_seed(seed);
      DeviceTensors device{GetParam()};
      if (!runs_on(GetParam(), [&] { kernel(device); })) return;
      const auto found = device.numbers();
      ASSERT_EQ(found.size(), expected.size());
      for (std::size_t t = 0; t < found.size(); ++t) {
        SCOPED_TRACE("output " + std::to_string(t));
        test::expect_like_host(GetParam(), found[t], expected[t], gpu_tolerance(DType::f32),
                               tolerance);
      }
    }
  }
};

}  // namespace lockstep::test
