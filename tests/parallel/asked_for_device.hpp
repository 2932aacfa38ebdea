#pragma once
#include <cstdlib>
#include <string_view>

#include <lockstep/tensor/device.hpp>

namespace lockstep::test {

/// Where models and batches lie. LOCKSTEP_TEST_DEVICE=sim: on a simulated device, of all ranks that
/// are threads the same; =cuda: on the first GPU, of all ranks.
inline Device asked_for_device() {
  const char* text = std::getenv("LOCKSTEP_TEST_DEVICE");
  const std::string_view kind = text ? text : "";
  if (kind == "sim") return {DeviceType::sim, 0};
  return kind == "cuda" ? Device{DeviceType::cuda, 0} : Device{};
}

}  // namespace lockstep::test
