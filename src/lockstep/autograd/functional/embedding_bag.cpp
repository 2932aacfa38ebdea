#include <lockstep/autograd/functional/embedding_bag.hpp>

#include <lockstep/autograd/node.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/tensor/kernels/data/index_check.hpp>

namespace lockstep {
namespace {

class EmbeddingBagNode : public PooledNode<EmbeddingBagNode> {
 public:
  static constexpr bool is_bilinear = true;

  EmbeddingBagNode(Bags bags, Tensor chosen) : bags_(std::move(bags)), chosen_(std::move(chosen)) {}

  void backward(const Tensor& grad_output) override {
    if (const auto weight = grad_target(0); weight.wanted) {
      embedding_bag_backward_weight(bags_, grad_output, chosen_, weight.accumulate, weight.tensor);
    }
    if (const auto factors = grad_target(1); factors.wanted) {
      embedding_bag_backward_per_sample_weights(bags_, grad_output, input(0).data(),
                                                factors.accumulate,
                                                factors.tensor.reshape(bags_.index.shape()));
    }
  }
  [[nodiscard]] const char* name() const noexcept override { return "embedding_bag"; }

 private:
  Bags bags_;
  Tensor chosen_;
};

/// Rows of equal length, as consecutive bags.
Bags bags_of(const Tensor& index, const Tensor& offsets) {
  if (offsets.defined()) return {.index = index, .offsets = offsets};
  if (index.dims() != 2) {
    throw ShapeError("embedding_bag without offsets takes an index [bags, n], not " +
                     describe(index));
  }
  Tensor begins = Tensor::empty({index.size(0)}, DType::i64);
  auto* const begin = static_cast<std::int64_t*>(begins.data());
  for (std::int64_t b = 0; b < index.size(0); ++b) begin[b] = b * index.size(1);
  return {.index = index.reshape({index.numel()}), .offsets = begins.to(index.device())};
}

}  // namespace

Variable embedding_bag(const Tensor& index, const Operand& weight, const Tensor& offsets,
                       BagMode mode, const Operand& per_sample_weights, std::int64_t padding_idx) {
  const Tensor& table = weight.data();
  Bags bags = bags_of(as_indices(index), offsets.defined() ? as_indices(offsets) : offsets);
  bags.mode = mode;
  bags.padding_idx = padding_idx;
  if (per_sample_weights.defined()) {
    if (per_sample_weights.shape() != index.shape()) {
      throw ShapeError("embedding_bag: per_sample_weights " + describe(per_sample_weights.data()) +
                       " differ in shape from index " + describe(index));
    }
    bags.per_sample_weights = per_sample_weights.data().reshape(bags.index.shape());
  }
  check_embedding_bag(bags, table);
  const Shape shape{bags.offsets.numel(), table.size(1)};
  Tensor y = Tensor::empty(shape, table.dtype(), table.device());
  Tensor chosen =
      mode == BagMode::max ? Tensor::empty(shape, DType::i64, table.device()) : Tensor();
  embedding_bag_forward(bags, table, y, chosen);
  return record<EmbeddingBagNode>(std::move(y), {&weight, &per_sample_weights}, std::move(bags),
                                  std::move(chosen));
}

}  // namespace lockstep
