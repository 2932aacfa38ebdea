#pragma once
// What tests of products, convolutions and attention on every device share.
#include <cstdint>
#include <optional>
#include <vector>

#include <gtest/gtest.h>
#include <lockstep/tensor/tensor.hpp>
#include <support/gpu_stand_in.hpp>

namespace lockstep::test {

enum class MathPlace { host, simulated, stand_in, gpu };

class MathOn : public testing::TestWithParam<MathPlace> {
 protected:
  MathOn() {
    if (GetParam() == MathPlace::stand_in) stand_in_.emplace();
  }
  [[nodiscard]] static Device device() {
    switch (GetParam()) {
      case MathPlace::host:
        return {};
      case MathPlace::gpu:
        return {DeviceType::cuda, 0};
      default:
        return {DeviceType::sim, 0};
    }
  }
  [[nodiscard]] static bool is_gpu() {
    return GetParam() == MathPlace::gpu || GetParam() == MathPlace::stand_in;
  }

 private:
  std::optional<GpuStandIn> stand_in_;
};

/// Whole eighths of at most 1, other ones for each seed: their products and sums of some hundred of
/// them are exact in every dtype that sums are made in, so that results may be compared for
/// equality in whatever order a device adds.
inline std::vector<double> eighths(std::int64_t count, int seed) {
  std::vector<double> values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = (static_cast<double>((i * 7 + static_cast<std::size_t>(seed) * 5) % 17) - 8) / 8;
  }
  return values;
}

inline Tensor on(Device device, const std::vector<double>& values, DType dtype) {
  return Tensor::from(values).to(dtype).to(device);
}

inline std::vector<double> read(const Tensor& t) {
  return t.to(Device{}).to(DType::f64).to_vector<double>();
}

}  // namespace lockstep::test
