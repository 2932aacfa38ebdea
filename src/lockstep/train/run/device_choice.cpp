#include <lockstep/train/run/device_choice.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <lockstep/base/error.hpp>
#include <lockstep/base/host.hpp>
#include <lockstep/comm/agreement.hpp>
#include <lockstep/tensor/device_memory.hpp>
#include <lockstep/tensor/runtime/caching_allocator.hpp>
#include <lockstep/tensor/runtime/device_runtime.hpp>
#include <lockstep/tensor/stream.hpp>
#include <lockstep/tensor/tf32.hpp>
#include <lockstep/train/launch/shared_devices.hpp>

namespace lockstep::train {
namespace {

/// The request in run.device.
struct Wish {
  std::optional<DeviceType> type;  ///< none: "auto"
  std::optional<int> index;
};

/// Names in decks: the host is "cpu".
std::optional<DeviceType> type_named(std::string_view name) {
  if (name == "cpu") return DeviceType::host;
  for (const DeviceType type : {DeviceType::cuda, DeviceType::sim}) {
    if (name == name_of(type)) return type;
  }
  return std::nullopt;
}

std::optional<int> number_in(std::string_view text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool is_all = error == std::errc() && end == text.data() + text.size();
  return is_all && number >= 0 ? std::optional(number) : std::nullopt;
}

std::optional<Wish> parsed(const std::string& text) {
  if (text == "auto") return Wish{};
  const auto colon = text.find(':');
  Wish wish{.type = type_named(std::string_view(text).substr(0, colon))};
  if (!wish.type) return std::nullopt;
  if (colon == std::string::npos) return wish;
  wish.index = number_in(std::string_view(text).substr(colon + 1));
  if (!wish.index || wish.type == DeviceType::host) return std::nullopt;
  return wish;
}

Wish wish_of(const std::string& device) {
  if (const auto wish = parsed(device)) return *wish;
  throw InputError(
      fmt::format("run.device = \"{}\" is not a device. Use \"auto\", \"cpu\", \"cuda\" or "
                  "\"sim\", or one device of a kind, for example \"cuda:1\" or \"sim:0\".",
                  device));
}

int device_count(DeviceType type) {
  return std::min(runtime_of(type).device_count(), max_devices_of_a_type);
}

/// The PCI address of the GPU that this rank would take; empty: it sees none.
std::string gpu_for(int local_rank) {
  const int count = has_cuda_runtime() ? device_count(DeviceType::cuda) : 0;
  return count == 0 ? "" : gpu_address({DeviceType::cuda, local_rank % count});
}

Device device_for(const RunOptions& options, DeviceType automatic, int local_rank) {
  const Wish wish = wish_of(options.device);
  const DeviceType type = wish.type.value_or(automatic);
  if (type == DeviceType::host) {
    if (options.device_memory == 0) return {};
    throw InputError(
        "run.device_memory limits the memory of a device, but this run computes on the host. "
        "Leave it out, or set run.device.");
  }
  if (type == DeviceType::cuda && !has_cuda_runtime()) {
    throw InputError(fmt::format(
        "run.device = \"{}\", but this build of Lockstep has no CUDA. Configure it with "
        "LOCKSTEP_ENABLE_CUDA, or use \"auto\", \"cpu\" or \"sim\".",
        options.device));
  }
  const int count = device_count(type);
  if (count == 0) {
    throw InputError(
        fmt::format("run.device = \"{}\", but this process sees no GPU. Ask the scheduler for one, "
                    "check CUDA_VISIBLE_DEVICES, or use \"auto\" or \"cpu\".",
                    options.device));
  }
  const int index = wish.index.value_or(local_rank % count);
  if (index >= count) {
    throw InputError(fmt::format(
        "run.device = \"{}\", but there {} {} of this kind here, {} to {}.", options.device,
        count == 1 ? "is" : "are", count, to_string({type, 0}), to_string({type, count - 1})));
  }
  return {type, index};
}

/// A unique name of a device on a machine. For GPUs the bus address, since processes may number
/// them differently. Throws if the device cannot be used.
std::string identity_of(Device device) {
  static_cast<void>(Stream(device));
  const std::string address = gpu_address(device);
  return address.empty() ? to_string(device) : address;
}

/// A rank's place. Containers of one machine may have different names and see the same GPUs.
struct Place {
  std::string host = host_name(), boot = boot_id();

  [[nodiscard]] const std::string& machine() const { return boot.empty() ? host : boot; }
  static auto fields(auto& self) { return std::tie(self.host, self.boot); }
};

NodeLayout layout_of(const std::vector<Place>& places) {
  std::vector<std::string> machines;
  for (const Place& place : places) machines.push_back(place.machine());
  return NodeLayout(machines);
}

/// "ranks 0, 1 of node7 on sim:0", for each.
std::vector<std::string> in_words(const std::vector<SharedDevice>& shared,
                                  const std::vector<Place>& places) {
  std::vector<std::string> words;
  for (const auto& [node, device, ranks] : shared) {
    words.push_back(fmt::format("ranks {} of {} on {}", fmt::join(ranks, ", "),
                                places[static_cast<std::size_t>(ranks.front())].host, device));
  }
  return words;
}

std::string in_words(const std::vector<std::string>& devices,
                     const std::vector<std::string>& shared) {
  if (!shared.empty())
    return fmt::format("ranks share devices (run.device_sharing): {}", fmt::join(shared, "; "));
  constexpr std::size_t most = 8;
  const auto named = std::min(devices.size(), most);
  return fmt::format(
      "{} {}{}", devices.size() == 1 ? "computes on" : "each rank computes on its own device:",
      fmt::join(devices.begin(), devices.begin() + static_cast<std::ptrdiff_t>(named), ", "),
      named < devices.size() ? ", ..." : "");
}

}  // namespace

void expect_device_text(const std::string& device) { static_cast<void>(wish_of(device)); }

AutomaticDevice automatic_device(const NodeLayout& layout,
                                 const std::vector<std::string>& gpu_of_rank) {
  const auto without = std::ranges::find(gpu_of_rank, std::string());
  if (std::ranges::all_of(gpu_of_rank, &std::string::empty)) return {};
  if (without != gpu_of_rank.end()) {
    return {DeviceType::host,
            fmt::format("run.device = \"auto\" computes on the host, as rank {} sees no GPU",
                        without - gpu_of_rank.begin())};
  }
  if (const auto shared = shared_devices(layout, gpu_of_rank); !shared.empty()) {
    return {
        DeviceType::host,
        fmt::format("run.device = \"auto\" computes on the host, as ranks {} would share GPU {}: "
                    "start at most one rank for each GPU of a machine to use them",
                    fmt::join(shared.front().ranks, ", "), shared.front().name)};
  }
  return {DeviceType::cuda, ""};
}

// Ranks whose decks ask for different kinds of device make the same calls here.
DeviceChoice choose_device(ProcessGroup& group, const RunOptions& options) {
  const auto places = agree(group, [] { return Place{}; });
  const NodeLayout layout = layout_of(places);
  const int local_rank = layout.local_rank(group.rank());
  // Kernels run on one GPU of a process.
  const bool are_threads = group.size() > 1 && std::string_view(group.backend()) == "threads";
  auto automatic =
      automatic_device(layout, agree(group, [&] { return gpu_for(are_threads ? 0 : local_rank); }));
  if (are_threads && !automatic.reason.empty()) {
    automatic.reason =
        "run.device = \"auto\" computes on the host, as the ranks are threads of one process: "
        "start "
        "them with mpiexec, one for each GPU, to use GPUs";
  }
  Device device;
  const auto identities = agree(group, [&] {
    device = device_for(options, automatic.type, local_rank);
    if (device == Device{}) return to_string(device);
    CachingAllocator::of(device).set_limit(static_cast<std::size_t>(options.device_memory));
    return identity_of(device);
  });
  const auto shared = in_words(shared_devices(layout, identities), places);
  if (!shared.empty()) {
    agree(group, [&] {
      if (options.device_sharing) return;
      throw InputError(fmt::format(
          "several ranks would compute on one device: {}. Start at most one rank for each "
          "device of a machine (run.device = \"{}\" without a number gives each rank its "
          "own), or set run.device_sharing = true.",
          fmt::join(shared, "; "), options.device.substr(0, options.device.find(':'))));
    });
  }
  allow_tf32(options.tf32);
  std::string words;
  if (device != Device{}) {
    words = in_words(identities, shared);
  } else if (!wish_of(options.device).type) {
    words = automatic.reason;
  }
  if (options.tf32) {
    words += fmt::format("{}run.tf32: {}", words.empty() ? "" : "; ",
                         device.type == DeviceType::cuda
                             ? "TF32 units multiply operands of f32"
                             : "no effect on " + to_string(device) + ", f32 keeps its bits");
  }
  return {device, std::move(words)};
}

}  // namespace lockstep::train
