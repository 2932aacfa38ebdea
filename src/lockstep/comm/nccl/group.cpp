#include <lockstep/comm/nccl/group.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <lockstep/base/error.hpp>
#include <lockstep/base/expect_given.hpp>
#include <lockstep/base/host.hpp>
#include <lockstep/base/log.hpp>
#include <lockstep/comm/agreement.hpp>
#include <lockstep/comm/call_record.hpp>
#include <lockstep/comm/nccl/core.hpp>
#include <lockstep/comm/nccl/enqueue.hpp>
#include <lockstep/comm/nccl_group.hpp>
#include <lockstep/tensor/device_memory.hpp>
#include <lockstep/tensor/runtime/launch.hpp>

namespace lockstep {
namespace {

using Kind = Operation::Kind;

bool lies_on_host(const Operation& operation) {
  for (const Tensor* t : {&operation.input, &operation.output}) {
    if (t->defined() && t->device().type != DeviceType::host) return false;
  }
  return operation.kind != Kind::barrier;
}

class NcclGroup final : public ProcessGroup {
 public:
  NcclGroup(std::shared_ptr<ProcessGroup> control, Device device, IntrusivePtr<NcclCore> core)
      : control_(std::move(control)), device_(device), core_(std::move(core)) {
    take_global_ranks_of(*control_);
  }
  ~NcclGroup() override { core_->leave(); }

  [[nodiscard]] int rank() const noexcept override { return control_->rank(); }
  [[nodiscard]] int size() const noexcept override { return control_->size(); }
  [[nodiscard]] const char* backend() const noexcept override { return "nccl"; }

  [[nodiscard]] Tensor shared_buffer(const Shape& shape, DType dtype) override {
    core_->expect_usable();
    return control_->shared_buffer(shape, dtype);
  }
  [[nodiscard]] WaitTimes wait_times() const noexcept override {
    const WaitTimes host = control_->wait_times(), own = core_->clock().times();
    return {host.work_s + own.work_s, host.straggler_s + own.straggler_s};
  }

 private:
  [[nodiscard]] Work start(Operation&& operation) override {
    if (lies_on_host(operation)) {
      core_->expect_usable();
      return start_on(*control_, std::move(operation));
    }
    expect_fitting(operation);
    if (!nccl_reduces(operation)) return go_by_host(operation);
    return core_->start(std::move(operation));
  }
  void begin_batch() override { core_->begin_batch(); }
  void end_batch() override { core_->end_batch(); }
  void release() override { core_->close(); }
  void take_name(const std::string& name) override {
    core_->take_name(name);
    control_->set_name(name);
  }
  [[nodiscard]] std::shared_ptr<ProcessGroup> make_subgroup(std::span<const int> members) override {
    core_->expect_usable();
    auto part = make_subgroup_of(*control_, members);
    NcclCommunicator& communicator = core_->communicator();
    if (communicator.api().can_split()) {
      if (members.empty()) {
        core_->leave_out();
        return nullptr;
      }
      return std::make_shared<NcclGroup>(part, device_,
                                         NcclCore::make_part(*core_, members.front(), part));
    }
    if (members.empty()) return nullptr;
    return std::make_shared<NcclGroup>(
        part, device_,
        NcclCore::make(communicator.shared_api(), part, core_->order(), device_, core_->options()));
  }

  /// Runs an operation that NCCL does not support on the host group. Blocks the host.
  Work go_by_host(const Operation& operation) {
    core_->await_stream(operation);  // also waits for the input
    Operation on_host = operation;
    on_host.device = Device{};
    try {
      on_host.input = operation.input.to(Device{});
      if (operation.output.defined()) {
        on_host.output = Tensor::empty(operation.output.shape(), operation.output.dtype());
      }
      const Tensor result = on_host.output;
      start_on(*control_, std::move(on_host)).wait();
      if (result.defined()) operation.output.copy_from(result);
    } catch (const DeviceError& error) {
      throw ErrorOnRank<CommError>({rank(), host_name()},
                                   fmt::format("{}: copying {} failed: {}", core_->rank_name(),
                                               describe(operation), error.what()));
    }
    return {};
  }

  void expect_fitting(const Operation& operation) const {
    for (const Tensor* t : {&operation.input, &operation.output}) {
      if (!t->defined() || t->device() == device_) continue;
      throw ShapeError(fmt::format("{}: {} does not lie on {}, the device of this nccl group",
                                   name_of(operation.kind), describe(*t), to_string(device_)));
    }
    if (operation.reduces() && operation.op == ReduceOp::avg) {
      static_cast<void>(
          // throws if this build has no kernels for the device
          detail::target_of(core_->communicator().collectives()));
    }
    if (operation.is_message() && (operation.tag != 0 || operation.root == any_source)) {
      throw ShapeError(fmt::format(
          "{}: NCCL has neither tags nor any_source; send such messages from host tensors",
          name_of(operation.kind)));
    }
  }

  std::shared_ptr<ProcessGroup> control_;
  Device device_;
  IntrusivePtr<NcclCore> core_;
};

/// The location of a rank: its node and its device.
struct Location {
  DeviceType type = DeviceType::host;
  int index = 0;
  std::string own;  ///< host and device; PCI address of a GPU; empty: none or unknown

  [[nodiscard]] std::string name() const { return to_string(Device{type, index}); }
  static auto fields(auto& self) { return std::tie(self.type, self.index, self.own); }
};

Location location_of(Device device) {
  Location location{device.type, device.index, ""};
  if (device.type == DeviceType::sim) location.own = host_name() + " " + to_string(device);
  const std::string address = gpu_address(device);
  if (!address.empty()) location.own = host_name() + " " + address;
  return location;
}

void expect_one_kind(const std::vector<Location>& locations) {
  const auto other = std::ranges::find_if(
      locations, [&](const Location& s) { return s.type != locations.front().type; });
  if (other == locations.end()) return;
  throw InputError(fmt::format(
      "the ranks compute on devices of two kinds: rank 0 on {}, rank {} on {}. Give all ranks the "
      "same kind (run.device)",
      locations.front().name(), other - locations.begin(), other->name()));
}

/// The ranks that share a device, which NCCL does not allow; empty if none do.
std::string shared_devices(const std::vector<Location>& locations) {
  for (std::size_t r = 1; r < locations.size(); ++r) {
    for (std::size_t before = 0; before < r; ++before) {
      if (locations[r].own.empty() || locations[r].own != locations[before].own) continue;
      return fmt::format("ranks {} and {} share a device ({}), which NCCL does not allow", before,
                         r, locations[r].own);
    }
  }
  return "";
}

std::shared_ptr<NcclApi>& api_of_tests() {
  static auto* const api = new std::shared_ptr<NcclApi>;
  return *api;
}

}  // namespace

std::shared_ptr<ProcessGroup> make_nccl_group(std::shared_ptr<NcclApi> api,
                                              std::shared_ptr<ProcessGroup> control, Device device,
                                              const GroupOptions& options) {
  expect_given("make_nccl_group", "its control group", control);
  if (control->rank() < 0) return control;
  auto order = order_of_launches(*api, *control, device, options.contract);
  auto core = NcclCore::make(std::move(api), control, std::move(order), device, options);
  return std::make_shared<NcclGroup>(std::move(control), device, std::move(core));
}

std::shared_ptr<ProcessGroup> make_nccl_group(std::shared_ptr<ProcessGroup> control, Device device,
                                              const GroupOptions& options) {
  return make_nccl_group(nccl_library(), std::move(control), device, options);
}

std::shared_ptr<ProcessGroup> make_group(std::shared_ptr<ProcessGroup> control, Device device,
                                         const GroupOptions& options) {
  expect_given("make_group", "the group of the host", control);
  if (control->rank() < 0) return control;
  const auto locations = agree(*control, [&] { return location_of(device); });
  expect_one_kind(locations);
  std::shared_ptr<NcclApi> api = api_of_tests();
  if (api && api->device_type() != device.type) api = nullptr;
  if (device.type != DeviceType::cuda && !api) return control;
  std::string why_not = shared_devices(locations);
  if (!api && !has_nccl()) why_not = "this build has no NCCL (LOCKSTEP_ENABLE_NCCL)";
  if (why_not.empty()) {
    return make_nccl_group(api ? std::move(api) : nccl_library(), std::move(control), device,
                           options);
  }
  if (control->rank() == 0) {
    log(LogLevel::warning,
        fmt::format("{}: tensors on devices travel through pinned memory of the host.", why_not));
  }
  return control;
}

void use_nccl_api(std::shared_ptr<NcclApi> api) { api_of_tests() = std::move(api); }

}  // namespace lockstep
