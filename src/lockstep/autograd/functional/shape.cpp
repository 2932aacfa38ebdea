#include <lockstep/autograd/functional/shape.hpp>
#include <lockstep/autograd/node.hpp>
#include <lockstep/base/error.hpp>

namespace lockstep {
namespace {

class ReshapeNode : public PooledNode<ReshapeNode> {
 public:
  void backward(const Tensor& grad_output) override {
    pass_grad(0, grad_output.reshape(input(0).shape()));
  }
  [[nodiscard]] const char* name() const noexcept override { return "reshape"; }
};

}  // namespace

Variable reshape(const Variable& x, const Shape& shape) {
  return record<ReshapeNode>(x.data().reshape(shape), {&x});
}

Variable flatten(const Variable& x) {
  if (x.shape().dims() < 1) throw ShapeError("flatten needs a leading dimension, not a scalar");
  std::int64_t rest = 1;
  for (int d = 1; d < x.shape().dims(); ++d) rest *= x.shape()[d];
  return reshape(x, {x.shape()[0], rest});
}

}  // namespace lockstep
