#pragma once
#include <cstdint>
#include <string>

namespace lockstep {

enum class DeviceType : std::uint8_t { host, cuda };

/// Where a tensor's bytes live. The host has index 0.
struct Device {
  DeviceType type = DeviceType::host;
  int index = 0;
  friend bool operator==(const Device&, const Device&) = default;
};

/// "host" or "cuda:1".
[[nodiscard]] std::string to_string(Device device);

}  // namespace lockstep
