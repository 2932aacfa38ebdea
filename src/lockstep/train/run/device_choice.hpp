#pragma once
#include <string>
#include <vector>

#include <lockstep/comm/node_layout.hpp>
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
  /// Devices of all ranks, and the effect of run.tf32 there, for the log, or why "auto" leaves GPUs
  /// alone; empty if all compute on the host without run.tf32, and see no GPU.
  std::string in_words;
};

/// What "auto" is: GPUs if each rank of each machine can have its own, else the host, as for ranks
/// that are threads of one process.
struct AutomaticDevice {
  DeviceType type = DeviceType::host;
  std::string reason;  ///< why it is the host although a rank sees a GPU; else empty
};
/// `gpu_of_rank`: a unique name within a machine of the GPU that a rank would take; empty: it sees
/// none.
[[nodiscard]] AutomaticDevice automatic_device(const NodeLayout& layout,
                                               const std::vector<std::string>& gpu_of_rank);

/// This rank's device according to [run]. For a kind without a number it is the device with the
/// rank's number within its machine; "auto": see automatic_device(). Limits the device's memory to
/// run.device_memory, and allows TF32 in this process or not (run.tf32). Throws AgreedError with
/// ExitCode::bad_input if there is no such device, or if ranks would share one without
/// run.device_sharing. Collective.
[[nodiscard]] DeviceChoice choose_device(ProcessGroup& group, const RunOptions& options);

}  // namespace lockstep::train
