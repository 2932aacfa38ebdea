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

void refuse_undefined() {
  throw Error(
      "an undefined Variable was used where a value is needed: it was made by Variable() and "
      "nothing was assigned to it, or it was moved from. Only optional arguments, such as a bias, "
      "may be undefined.");
}

VariableRecord::VariableRecord() = default;
VariableRecord::~VariableRecord() = default;

void VariableRecord::release() noexcept { ObjectPool<VariableRecord>::instance().recycle(this); }

}  // namespace detail

Variable::Variable(Tensor data, bool requires_grad)
    : record_(ObjectPool<detail::VariableRecord>::instance().make()) {
  if (!data.defined()) throw Error("a Variable cannot be made from an undefined tensor");
  if (requires_grad && !is_floating(data.dtype())) {
    throw Error("only floating tensors have gradients, not " + describe(data));
  }
  record_->data = std::move(data);
  record_->requires_grad = requires_grad;
}

void Variable::set_grad_buffer(Tensor buffer) const {
  if (buffer.shape() != shape() || buffer.dtype() != data().dtype() ||
      buffer.layout() != data().layout() || !(buffer.device() == data().device())) {
    throw ShapeError("a gradient buffer " + describe(buffer) + " does not fit a variable " +
                     describe(data()));
  }
  record_->grad = std::move(buffer);
  record_->grad_holds_value = false;
}

Tensor Variable::grad_buffer() const {
  if (!value().grad.defined()) record_->grad = Tensor::empty_like(data());
  return record_->grad;
}

void Variable::backward(double seed, bool retain_graph) const {
  Engine::instance().run(*this, seed, retain_graph);
}

NoGradGuard::NoGradGuard() : before_(recording) { recording = false; }
NoGradGuard::~NoGradGuard() { recording = before_; }

bool grad_enabled() noexcept { return recording; }

}  // namespace lockstep
