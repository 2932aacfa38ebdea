#include <lockstep/autograd/functional/linear.hpp>
#include <lockstep/autograd/node.hpp>
#include <lockstep/tensor/kernels/embedding.hpp>

namespace lockstep {
namespace {

class EmbeddingNode : public PooledNode<EmbeddingNode> {
 public:
  EmbeddingNode(Tensor index, std::int64_t padding_idx)
      : index_(std::move(index)), padding_idx_(padding_idx) {}

  void backward(const Tensor& grad_output) override {
    if (const auto weight = grad_target(0); weight.wanted) {
      embedding_backward(grad_output, index_, padding_idx_, weight.accumulate, weight.tensor);
    }
  }
  [[nodiscard]] const char* name() const noexcept override { return "embedding"; }

 private:
  Tensor index_;
  std::int64_t padding_idx_;
};

}  // namespace

Variable embedding(const Tensor& index, const Variable& weight, std::int64_t padding_idx) {
  const Tensor& table = weight.data();
  Tensor y =
      Tensor::empty(embedding_shape(index, table, padding_idx), table.dtype(), table.device());
  embedding_forward(index, table, y);
  return record<EmbeddingNode>(std::move(y), {&weight}, index, padding_idx);
}

}  // namespace lockstep
