#pragma once
// Kernels of a GPU against the host's: the same calls on both, from the same numbers.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <tuple>
#include <vector>

#include <lockstep/tensor/sum_dtype.hpp>
#include <lockstep/tensor/tensor.hpp>
#include <support/gpu_stand_in.hpp>
#include <support/test_devices.hpp>

namespace lockstep::test {

/// What a kernel takes and gives, on one device; the inputs are the same on each.
class KernelTensors {
 public:
  KernelTensors(Device device, DType dtype) : device_(device), dtype_(dtype) {}

  [[nodiscard]] DType of_parameters() const { return sum_dtype(dtype_); }
  [[nodiscard]] Tensor input(const Shape& shape, double mean = 0) {
    return numbers(shape, dtype_, mean);
  }
  /// Not aligned to more than one element.
  [[nodiscard]] Tensor unaligned(const Shape& shape) {
    const Tensor all = numbers({shape.numel() + 1}, dtype_, 0);
    return all.slice(1, shape.numel() + 1).reshape(shape);
  }
  [[nodiscard]] Tensor parameter(const Shape& shape) { return numbers(shape, of_parameters(), 0); }
  [[nodiscard]] Tensor positive(const Shape& shape) { return numbers(shape, of_parameters(), 1.5); }
  /// With numbers in it, so that what adds to them, and what overwrites them, differ.
  [[nodiscard]] Tensor output(const Shape& shape) { return kept(numbers(shape, dtype_, 0)); }
  [[nodiscard]] Tensor parameter_output(const Shape& shape, DType dtype) {
    return kept(numbers(shape, dtype, 0));
  }
  [[nodiscard]] Tensor parameter_output(const Shape& shape) {
    return parameter_output(shape, of_parameters());
  }

  [[nodiscard]] const std::vector<Tensor>& outputs() const { return outputs_; }

 private:
  Tensor numbers(const Shape& shape, DType dtype, double mean) {
    std::vector<double> values(static_cast<std::size_t>(shape.numel()));
    ++made_;
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = mean + std::sin(static_cast<double>(i) * 0.7 + made_);
    return Tensor::from(values, shape).to(dtype).to(device_);
  }
  Tensor kept(Tensor t) {
    outputs_.push_back(t);
    return t;
  }

  Device device_;
  DType dtype_;
  int made_ = 0;
  std::vector<Tensor> outputs_;
};

/// One rounding of a number that is stored, or the last digits of one that is summed in another
/// order.
inline double rounding(DType dtype) {
  switch (dtype) {
    case DType::bf16:
      return 0x1p-7;
    case DType::f16:
      return 0x1p-10;
    case DType::f64:
      return 0x1p-45;
    default:
      return 0x1p-21;
  }
}

/// Roundings of a row's sum on the stand-in, whose one thread adds one pack after another; 32 or
/// more of a GPU share them out.
inline constexpr double sum_of_a_thread = 4;

/// Of a device and a dtype.
class LikeHost : public testing::TestWithParam<std::tuple<Device, DType>> {
 protected:
  template <class F>
  static std::vector<Tensor> outputs(Device device, const F& kernels) {
    KernelTensors t(device, std::get<1>(GetParam()));
    kernels(t);
    std::vector<Tensor> on_host;
    for (const Tensor& output : t.outputs()) on_host.push_back(output.to(Device{}));
    return on_host;
  }
  /// Results may differ by so many roundings: where numbers that cancel are summed, by several.
  template <class F>
  static void expect_like_host(const F& kernels, double roundings = 1) {
    const Device device = std::get<0>(GetParam());
    const std::vector<Tensor> expected = outputs(Device{}, kernels);
    const GpuStandIn gpu;
    const std::vector<Tensor> found = outputs(device, kernels), again = outputs(device, kernels);
    ASSERT_FALSE(expected.empty());
    for (std::size_t i = 0; i < expected.size(); ++i) {
      SCOPED_TRACE("output " + std::to_string(i));
      const DType dtype = expected[i].dtype();
      const auto numbers = found[i].to(DType::f64).to_vector<double>();
      test::expect_like_host(device, numbers, expected[i].to(DType::f64).to_vector<double>(),
                             gpu_tolerance(dtype), roundings * rounding(dtype));
      test::expect_like_host(device, again[i].to(DType::f64).to_vector<double>(), numbers, 0);
    }
  }
};

/// Every device and every dtype that kernels store.
inline auto devices_and_dtypes() {
  return testing::Combine(testing::ValuesIn(devices_to_test()),
                          testing::Values(DType::f32, DType::f64, DType::bf16, DType::f16));
}
inline std::string name_of_case(const testing::TestParamInfo<LikeHost::ParamType>& info) {
  return std::string(name_of(std::get<1>(info.param))) + "_" +
         std::string(name_of(std::get<0>(info.param).type));
}

}  // namespace lockstep::test
