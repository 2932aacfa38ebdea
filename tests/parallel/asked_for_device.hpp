#pragma once
#include <cstdlib>
#include <string_view>

#include <lockstep/tensor/device.hpp>

namespace lockstep::test {

/// The device of models and batches. LOCKSTEP_TEST_DEVICE=sim: a simulated device, the same for all
/// ranks that are threads; =cuda: the first GPU, for all ranks.
inline Device asked_for_device() {
  const char* text = std::getenv("LOCKSTEP_TEST_DEVICE");
  const std::string_view kind = text ? text : "";
  if (kind == "sim") return {DeviceType::sim, 0};
  return kind == "cuda" ? Device{DeviceType::cuda, 0} : Device{};
}

}  // namespace lockstep::test
