#include <lockstep/comm/nccl/group.hpp>

#include <fmt/format.h>

#include <utility>

#include <lockstep/base/error.hpp>
#include <lockstep/base/expect_given.hpp>
#include <lockstep/base/host.hpp>
#include <lockstep/comm/call_record.hpp>
#include <lockstep/comm/nccl/core.hpp>
#include <lockstep/comm/nccl/enqueue.hpp>
#include <lockstep/comm/nccl_group.hpp>

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
  NcclGroup(std::shared_ptr<NcclApi> api, std::shared_ptr<ProcessGroup> control, Device device,
            const GroupOptions& options)
      : api_(std::move(api)),
        control_(std::move(control)),
        device_(device),
        core_(NcclCore::make(api_, control_, device, options)) {
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
  [[nodiscard]] std::shared_ptr<ProcessGroup> make_subgroup(std::span<const int> members) override {
    core_->expect_usable();
    auto part = make_subgroup_of(*control_, members);
    if (members.empty()) return nullptr;
    return std::make_shared<NcclGroup>(api_, std::move(part), device_, core_->options());
  }

  /// What NCCL does not reduce. Blocks the host: its result must be on the device before anything
  /// that the current stream gets from now on.
  Work go_by_host(const Operation& operation) {
    core_->await_stream(operation);  // which writes the input
    Operation on_host = operation;
    on_host.device = Device{};
    if (operation.output.defined()) {
      on_host.output = Tensor::empty(operation.output.shape(), operation.output.dtype());
    }
    on_host.input = Tensor::empty(operation.input.shape(), operation.input.dtype());
    copy(on_host.input, operation.input);
    const Tensor result = on_host.output;
    start_on(*control_, std::move(on_host)).wait();
    if (result.defined()) copy(operation.output, result);
    return {};
  }

  void copy(const Tensor& to, const Tensor& from) {
    try {
      const DeviceScope there(*api_, device_.index);
      api_->copy(to.data(), from.data(), from.bytes());
    } catch (const GpuError& error) {
      throw ErrorOnRank<CommError>({rank(), host_name()},
                                   fmt::format("{}: copying {} failed: {}", core_->rank_name(),
                                               describe(from), error.what()));
    }
  }

  void expect_fitting(const Operation& operation) const {
    for (const Tensor* t : {&operation.input, &operation.output}) {
      if (!t->defined() || t->device() == device_) continue;
      throw ShapeError(fmt::format("{}: {} does not lie on {}, the device of this nccl group",
                                   name_of(operation.kind), describe(*t), to_string(device_)));
    }
    if (operation.is_message() && (operation.tag != 0 || operation.root == any_source)) {
      throw ShapeError(
          fmt::format("{}: NCCL knows neither tags nor any_source; keep such messages on the host",
                      name_of(operation.kind)));
    }
  }

  std::shared_ptr<NcclApi> api_;
  std::shared_ptr<ProcessGroup> control_;
  Device device_;
  IntrusivePtr<NcclCore> core_;
};

}  // namespace

std::shared_ptr<ProcessGroup> make_nccl_group(std::shared_ptr<NcclApi> api,
                                              std::shared_ptr<ProcessGroup> control, Device device,
                                              const GroupOptions& options) {
  expect_given("make_nccl_group", "the group that it talks through", control);
  if (control->rank() < 0) return control;
  expect_gpus(*api, *control, device);
  return std::make_shared<NcclGroup>(std::move(api), std::move(control), device, options);
}

std::shared_ptr<ProcessGroup> make_nccl_group(std::shared_ptr<ProcessGroup> control, Device device,
                                              const GroupOptions& options) {
  return make_nccl_group(nccl_library(), std::move(control), device, options);
}

std::shared_ptr<ProcessGroup> make_group(std::shared_ptr<ProcessGroup> control, Device device,
                                         const GroupOptions& options) {
  expect_given("make_group", "the group of the host", control);
  if (device.type != DeviceType::cuda) return control;
  return make_nccl_group(std::move(control), device, options);
}

}  // namespace lockstep
