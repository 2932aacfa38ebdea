#include <lockstep/autograd/variable.hpp>

#include <map>
#include <mutex>
#include <string>
#include <utility>

#include <lockstep/autograd/backward_pass.hpp>
#include <lockstep/autograd/node.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/base/pool.hpp>
#include <lockstep/tensor/absent_memory.hpp>

namespace lockstep {
namespace {

thread_local bool recording = true;
thread_local constinit char this_thread = 0;  // its address is the thread's

/// A storage without memory, one for all values that were dropped on a device.
IntrusivePtr<Storage> no_memory(std::size_t bytes, Device device) {
  static auto* const mutex = new std::mutex;  // never destroyed: graphs may outlive main()
  static auto* const kept = new std::map<std::pair<DeviceType, int>, IntrusivePtr<Storage>>;
  const std::lock_guard lock(*mutex);
  IntrusivePtr<Storage>& storage = (*kept)[{device.type, device.index}];
  const bool is_large_enough =
      storage && (storage->bytes() >= bytes || device.type != DeviceType::host);
  if (!is_large_enough) storage = absent_memory(2 * bytes, device);
  return storage;
}

void expect_floating(const Tensor& data) {
  if (!is_floating(data.dtype()))
    throw Error("only floating tensors have gradients, not " + describe(data));
}

void expect_fit(const char* what, const Tensor& buffer, const Tensor& data) {
  if (detail::fits(buffer, data)) return;
  throw ShapeError(std::string("a ") + what + " buffer " + describe(buffer) +
                   " does not fit a variable " + describe(data));
}

}  // namespace

namespace detail {

void refuse_undefined() {
  throw Error(
      "an undefined Variable was used where a value is needed: it was made by Variable() and "
      "nothing was assigned to it, or it was moved from. Only optional arguments, such as a bias, "
      "may be undefined.");
}

bool fits(const Tensor& buffer, const Tensor& data) {
  return buffer.shape() == data.shape() && buffer.dtype() == data.dtype() &&
         buffer.layout() == data.layout() && buffer.device() == data.device();
}

VariableRecord::VariableRecord() : recorder_(&this_thread) {}
VariableRecord::~VariableRecord() {
  leave_outputs();
  if (producer) Node::let_go(std::move(producer));
}

const VariableRecord& VariableRecord::base() const noexcept {
  const VariableRecord* record = this;
  while (record->producer && record->producer->is_view_)
    record = record->producer->input(0).record();
  return *record;
}

void VariableRecord::join_outputs(VariableRecord& other) noexcept {
  other.previous_output = this;
  other.next_output = next_output;
  next_output->previous_output = &other;
  next_output = &other;
}

void VariableRecord::leave_outputs() noexcept {
  previous_output->next_output = next_output;
  next_output->previous_output = previous_output;
  previous_output = next_output = this;
}

void VariableRecord::drop_value() noexcept {
  constexpr std::size_t worthwhile_bytes = std::size_t{1} << 16U;
  if (recorder_ != &this_thread || data.bytes() < worthwhile_bytes) return;
  try {
    data = Tensor::over(no_memory(data.bytes(), data.device()), 0, data.shape(), data.dtype())
               .with_layout(data.layout());
  } catch (const Error&) {
    return;  // the value stays
  }
}

void VariableRecord::release() noexcept { ObjectPool<VariableRecord>::instance().recycle(this); }

}  // namespace detail

Variable::Variable(Tensor data, bool requires_grad)
    : record_(ObjectPool<detail::VariableRecord>::instance().make()) {
  if (!data.defined()) throw Error("a Variable cannot be made from an undefined tensor");
  if (requires_grad) expect_floating(data);
  record_->data = std::move(data);
  record_->requires_grad = requires_grad;
}

std::uint32_t Variable::version() const noexcept {
  return record_ ? record_->base().version.load(std::memory_order_relaxed) : 0;
}

void Variable::increment_version() const {
  value().base().version.fetch_add(1, std::memory_order_relaxed);
}

void Variable::set_requires_grad(bool on) const {
  if (!is_leaf()) throw Error("only a leaf can be frozen or trained, not an operation's result");
  if (on) expect_floating(data());
  if (!on) zero_grad();
  record_->requires_grad = on;
}

void Variable::set_dtype(DType dtype) const {
  if (!is_leaf()) throw Error("only a leaf's dtype can be set; convert a result with to()");
  if (!is_floating(dtype)) {
    throw Error("a variable " + describe(data()) + " cannot become " + std::string(name_of(dtype)) +
                ": only floating tensors have gradients");
  }
  if (dtype == data().dtype()) return;
  record_->data = record_->data.to(dtype);
  increment_version();
  record_->grad = {};
  zero_grad();
}

void Variable::set_device(Device device) const {
  if (!is_leaf()) throw Error("only a leaf can be moved to a device, not an operation's result");
  record_->data = record_->data.to(device);
  if (record_->grad.defined()) record_->grad = record_->grad.to(device);
}

void Variable::set_value(const Tensor& value) const {
  if (!is_leaf()) throw Error("only a leaf's value can be replaced");
  if (!value.defined() || value.dtype() != data().dtype())
    throw Error("a variable " + describe(data()) + " keeps its dtype when its value is replaced");
  record_->data = value;
  increment_version();
  record_->grad = {};
  zero_grad();
}

void Variable::set_value_buffer(const Tensor& buffer) const {
  if (!is_leaf()) throw Error("only a leaf's storage can be replaced");
  expect_fit("value", buffer, data());
  buffer.copy_from(data());
  record_->data = buffer;
}

void Variable::set_grad_buffer(Tensor buffer) const {
  const bool wider = is_half(data().dtype()) && buffer.dtype() == DType::f32;
  expect_fit("gradient", buffer, wider ? data().to(DType::f32) : data());
  record_->grad = std::move(buffer);
  record_->grad_holds_value = false;
}

Tensor Variable::grad_buffer() const {
  if (!value().grad.defined()) record_->grad = Tensor::empty_like(data());
  return record_->grad;
}

GradHook Variable::add_grad_hook(std::function<void()> hook, PassObserver* observer) const {
  auto& hooks = value().grad_hooks;
  const std::uint64_t number = hooks.empty() ? 1 : hooks.back().number + 1;
  hooks.push_back({number, std::move(hook), observer});
  return {record_, number};
}

void GradHook::remove() noexcept {
  if (!record_) return;
  std::erase_if(record_->grad_hooks,
                [&](const detail::GradHookEntry& hook) { return hook.number == number_; });
}

void Variable::backward(double seed, bool retain_graph) const {
  if (!record_ || data().numel() != 1) {
    throw Error(
        "backward() starts from a variable with one element, such as a mean loss, not from " +
        (record_ ? describe(data()) + "; lockstep::backward takes its gradient too"
                 : "an undefined variable"));
  }
  BackwardPass({.roots = std::span(this, 1), .seed = seed, .retain_graph = retain_graph}).run();
}

GradModeGuard::GradModeGuard(bool records) : before_(recording) { recording = records; }
GradModeGuard::~GradModeGuard() { recording = before_; }

bool grad_enabled() noexcept { return recording; }

}  // namespace lockstep
