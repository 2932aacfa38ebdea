#pragma once
#include <string>

#include <lockstep/tensor/device.hpp>
#include <lockstep/train/options.hpp>

namespace lockstep {
class ProcessGroup;
}

namespace lockstep::train {

/// Throws InputError unless run.device is "auto", "cpu", "cuda", "sim", or one device of a kind,
/// as "cuda:1".
void expect_device_text(const std::string& device);

/// What a rank computes on.
struct DeviceChoice {
  Device device;
  std::string in_words;  ///< of all ranks, for the log; empty where all compute on the host
};

/// This rank's device, as [run] says: of a kind without a number, the one of its number among its
/// machine's ranks. "auto" is the host. Limits the device's memory to run.device_memory. Throws
/// AgreedError with ExitCode::bad_input where there is no such device, or ranks would compute on
/// one together without run.device_sharing. Collective.
[[nodiscard]] DeviceChoice choose_device(ProcessGroup& group, const RunOptions& options);

}  // namespace lockstep::train
