#pragma once
#include <cstdlib>
#include <string_view>

#include <lockstep/tensor/device.hpp>

namespace lockstep::test {

/// Where models and batches lie. LOCKSTEP_TEST_DEVICE=sim: on a simulated device, of all ranks that
/// are threads the same.
inline Device asked_for_device() {
  const char* text = std::getenv("LOCKSTEP_TEST_DEVICE");
  return text && std::string_view(text) == "sim" ? Device{DeviceType::sim, 0} : Device{};
}

}  // namespace lockstep::test
