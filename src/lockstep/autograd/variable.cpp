#include <lockstep/autograd/variable.hpp>

#include <lockstep/autograd/engine.hpp>
#include <lockstep/autograd/node.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/base/pool.hpp>

namespace lockstep {
namespace {

thread_local bool recording = true;

}  // namespace

namespace detail {

VariableRecord::VariableRecord() = default;
VariableRecord::~VariableRecord() = default;

void VariableRecord::release() noexcept { ObjectPool<VariableRecord>::instance().recycle(this); }

}  // namespace detail

Variable::Variable(Tensor data, bool requires_grad)
    : record_(ObjectPool<detail::VariableRecord>::instance().make()) {
  if (requires_grad && !is_floating(data.dtype())) {
    throw Error("only floating tensors have gradients, not " + describe(data));
  }
  record_->data = std::move(data);
  record_->requires_grad = requires_grad;
}

void Variable::set_grad_buffer(Tensor buffer) const {
  if (buffer.shape() != shape() || buffer.dtype() != data().dtype() ||
      !(buffer.device() == data().device())) {
    throw ShapeError("a gradient buffer " + describe(buffer) + " does not fit a variable " +
                     describe(data()));
  }
  record_->grad = std::move(buffer);
  record_->grad_holds_value = false;
}

Tensor Variable::grad_buffer() const {
  if (!record_->grad.defined()) {
    record_->grad = Tensor::empty(shape(), data().dtype(), data().device());
  }
  return record_->grad;
}

void Variable::backward(double seed) const { Engine::instance().run(*this, seed); }

NoGradGuard::NoGradGuard() : before_(recording) { recording = false; }
NoGradGuard::~NoGradGuard() { recording = before_; }

bool grad_enabled() noexcept { return recording; }

}  // namespace lockstep
