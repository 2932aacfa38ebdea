#pragma once
// Devices that tests compare with the host. Tests instantiated over devices_to_test() have cases
// whose names end in "sim", and, if this process sees a GPU, others that end in "cuda".
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/base/error.hpp>
#include <lockstep/tensor/dtype.hpp>
#include <lockstep/tensor/runtime/device_runtime.hpp>

namespace lockstep::test {

/// A simulated device, and the first GPU where this process sees one.
inline std::vector<Device> devices_to_test() {
  std::vector<Device> devices{{DeviceType::sim, 0}};
  if (has_cuda_runtime() && runtime_of(DeviceType::cuda).device_count() > 0) {
    devices.push_back({DeviceType::cuda, 0});
  }
  return devices;
}

/// For INSTANTIATE_TEST_SUITE_P over devices alone.
inline std::string name_of_device_case(const testing::TestParamInfo<Device>& info) {
  return std::string(name_of(info.param.type));
}

/// The tolerance of a GPU's numbers relative to the largest of the host's.
inline double gpu_tolerance(DType dtype) {
  return dtype == DType::f64 ? 1e-11 : dtype == DType::f32 ? 5e-5 : 2e-2;
}

/// Expects the host's bits from a simulated device, which runs the host's kernels. A GPU sums in
/// another order and has its own exponential functions: it must be within `tolerance` of the
/// largest number, or of 1, the size of inputs whose terms may cancel. A simulated device that
/// stands in for one must be within `stand_in` of it.
inline void expect_like_host(Device device, const std::vector<double>& found,
                             const std::vector<double>& expected, double tolerance,
                             double stand_in = 0) {
  ASSERT_EQ(found.size(), expected.size());
  double largest = 0;
  for (const double value : expected) {
    if (std::isfinite(value)) largest = std::max(largest, std::abs(value));
  }
  const double bound =
      (device.type == DeviceType::cuda ? tolerance : stand_in) * std::max(largest, 1.0);
  for (std::size_t i = 0; i < found.size(); ++i) {
    const bool is_same =
        found[i] == expected[i] || (std::isnan(found[i]) && std::isnan(expected[i]));
    ASSERT_TRUE(is_same || std::abs(found[i] - expected[i]) <= bound)
        << to_string(device) << ", element " << i << ": " << found[i] << ", on the host "
        << expected[i] << "; they may differ by " << bound;
  }
}

/// Calls f. False if a GPU has no kernel for an operation and refused with a sentence, which is
/// printed, so that GPU test runs can count refusals.
template <class F>
bool runs_on(Device device, const F& f) {
  try {
    f();
    return true;
  } catch (const ShapeError& error) {
    const std::string_view message = error.what();
    const bool refuses = message.find("no kernel for a GPU") != std::string_view::npos;
    if (device.type != DeviceType::cuda || !refuses) throw;
    std::printf("refused: %s\n", error.what());
    return false;
  }
}

}  // namespace lockstep::test
