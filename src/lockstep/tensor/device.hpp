#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace lockstep {

/// sim: a device simulated by this process; accesses that would fail on a GPU fail here too
/// (docs/guide/devices.md).
enum class DeviceType : std::uint8_t { host, cuda, sim };

/// "host", "cuda" or "sim".
[[nodiscard]] std::string_view name_of(DeviceType type) noexcept;

/// The location of a tensor's bytes. The host has index 0.
struct Device {
  DeviceType type = DeviceType::host;
  int index = 0;
  friend bool operator==(const Device&, const Device&) = default;
};

/// "host", "cuda:1" or "sim:0".
[[nodiscard]] std::string to_string(Device device);

/// Largest number of devices of a type in one process: indices are below it.
inline constexpr int max_devices_of_a_type = 16;
inline constexpr std::size_t device_slots = 1 + 2 * max_devices_of_a_type;

/// A number below device_slots for each device. Throws ShapeError if its index is not below
/// max_devices_of_a_type.
[[nodiscard]] std::size_t slot_of(Device device);

}  // namespace lockstep
