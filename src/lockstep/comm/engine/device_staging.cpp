#include <lockstep/comm/engine/device_staging.hpp>

#include <utility>

#include <lockstep/tensor/runtime/device_runtime.hpp>

namespace lockstep {
namespace {

Tensor pinned_like(const Tensor& t) {
  return Tensor::over(Storage::allocate_pinned(t.bytes(), t.device().type), 0, t.shape(),
                      t.dtype());
}

/// The part of `staged_whole` that corresponds to `part` of `whole`.
Tensor part_of(const Tensor& staged_whole, const Tensor& whole, const Tensor& part) {
  const auto offset = static_cast<std::size_t>(address_of(part) - address_of(whole));
  return Tensor::over(staged_whole.storage(), staged_whole.offset_bytes() + offset, part.shape(),
                      part.dtype());
}

void copy(const Tensor& to, const Tensor& from, const Stream& stream) {
  runtime_of(stream.device().type).copy(to.data(), from.data(), from.bytes(), stream.queue());
}

bool brings(const Operation& operation, int rank) {
  return operation.input.defined() && operation.input.numel() > 0 &&
         (operation.kind != Operation::Kind::broadcast || operation.root == rank);
}

bool gets(const Operation& operation, int rank) {
  return operation.output.defined() && operation.output.numel() > 0 &&
         (operation.kind != Operation::Kind::broadcast || operation.root != rank);
}

}  // namespace

DeviceEvent* StagingDevice::take_event() {
  if (free_.empty()) {
    free_.reserve(events_.size() + 1);
    events_.push_back(std::make_unique<DeviceEvent>(device_));
    return events_.back().get();
  }
  DeviceEvent* const event = free_.back();
  free_.pop_back();
  return event;
}

void StagingDevice::give_event(DeviceEvent* event) noexcept {
  if (event) free_.push_back(event);
}

DeviceStaging::DeviceStaging(Operation& operation, StagingDevice& device, bool by_host)
    : device_(&device), input_(operation.input), output_(operation.output), by_host_(by_host) {
  if (by_host) return;
  if (input_.defined() && output_.defined() && overlap(input_, output_)) {
    const bool input_is_whole = input_.bytes() >= output_.bytes();
    const Tensor& whole = input_is_whole ? input_ : output_;
    const Tensor staged = pinned_like(whole);
    operation.input = part_of(staged, whole, input_);
    operation.output = part_of(staged, whole, output_);
    return;
  }
  if (input_.defined()) operation.input = pinned_like(input_);
  if (output_.defined()) operation.output = pinned_like(output_);
}

void DeviceStaging::copy_out(const Operation& operation, int rank) {
  const Stream& stream = current_stream(device());
  given_ = device_->take_event();
  const bool copies = !by_host_ && brings(operation, rank);
  holds_ = copies || by_host_;
  if (copies) copy(operation.input, input_, stream);
  given_->record(stream);
}

void DeviceStaging::copy_back(const Operation& operation, int rank) {
  if (by_host_ || !gets(operation, rank)) return;
  const Stream& stream = device_->back();
  back_ = device_->take_event();
  stream.wait(*given_);
  copy(output_, operation.output, stream);
  back_->record(stream);
}

void DeviceStaging::end() noexcept {
  device_->give_event(std::exchange(given_, nullptr));
  device_->give_event(std::exchange(back_, nullptr));
  input_ = output_ = Tensor();
}

}  // namespace lockstep
