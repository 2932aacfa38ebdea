#pragma once
#include <string>

#include <lockstep/tensor/device.hpp>
#include <lockstep/train/options.hpp>

namespace lockstep {
class ProcessGroup;
}

namespace lockstep::train {

/// Throws InputError unless run.device is "auto", "cpu", "cuda", "sim", or one device of a kind,
/// for example "cuda:1".
void expect_device_text(const std::string& device);

/// The device of a rank.
struct DeviceChoice {
  Device device;
  /// Devices of all ranks, and the effect of run.tf32 there, for the log; empty if all compute on
  /// the host without run.tf32.
  std::string in_words;
};

/// This rank's device according to [run]. For a kind without a number it is the device with the
/// rank's number within its machine. "auto" is the host. Limits the device's memory to
/// run.device_memory, and allows TF32 in this process or not (run.tf32). Throws AgreedError with
/// ExitCode::bad_input if there is no such device, or if ranks would share one without
/// run.device_sharing. Collective.
[[nodiscard]] DeviceChoice choose_device(ProcessGroup& group, const RunOptions& options);

}  // namespace lockstep::train
