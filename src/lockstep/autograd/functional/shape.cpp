#include <lockstep/autograd/functional/shape.hpp>

#include <algorithm>
#include <numeric>

#include <lockstep/autograd/node.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/tensor/kernels/copy.hpp>
#include <lockstep/tensor/kernels/index.hpp>

namespace lockstep {
namespace {

class ReshapeNode : public PooledNode<ReshapeNode> {
 public:
  void backward(const Tensor& grad_output) override {
    pass_grad(0, grad_output.reshape(input(0).shape()));
  }
  [[nodiscard]] const char* name() const noexcept override { return "reshape"; }
};

class PermuteNode : public PooledNode<PermuteNode> {
 public:
  explicit PermuteNode(const Dims& inverse) : inverse_(inverse) {}

  void backward(const Tensor& grad_output) override {
    if (const auto x = grad_target(0); x.wanted) {
      permute_copy(grad_output, inverse_, x.accumulate, x.tensor);
    }
  }
  [[nodiscard]] const char* name() const noexcept override { return "permute"; }

 private:
  Dims inverse_;
};

class NarrowNode : public PooledNode<NarrowNode> {
 public:
  NarrowNode(int dim, std::int64_t start) : dim_(dim), start_(start) {}

  void backward(const Tensor& grad_output) override {
    const auto x = grad_target(0);
    if (!x.wanted) return;
    if (!x.accumulate) x.tensor.zero();
    narrow_assign(grad_output, dim_, start_, x.accumulate, x.tensor);
  }
  [[nodiscard]] const char* name() const noexcept override { return "narrow"; }

 private:
  int dim_;
  std::int64_t start_;
};

class ConcatNode : public PooledNode<ConcatNode> {
 public:
  explicit ConcatNode(int dim) : dim_(dim) {}

  void backward(const Tensor& grad_output) override {
    std::int64_t start = 0;
    for (int i = 0; i < input_count(); ++i) {
      if (const auto part = grad_target(i); part.wanted) {
        narrow_copy(grad_output, dim_, start, part.accumulate, part.tensor);
      }
      start += input(i).shape()[dim_];
    }
  }
  [[nodiscard]] const char* name() const noexcept override { return "concat"; }

 private:
  int dim_;
};

class SplitNode : public MultiOutputNode<SplitNode> {
 public:
  explicit SplitNode(int dim, std::vector<std::int64_t> sizes)
      : dim_(dim), sizes_(std::move(sizes)) {}

  void backward(std::span<const Tensor> grad_outputs) override {
    const auto x = grad_target(0);
    if (!x.wanted) return;
    const bool all = std::ranges::all_of(grad_outputs, &Tensor::defined);
    if (!all && !x.accumulate) x.tensor.zero();
    std::int64_t start = 0;
    for (std::size_t i = 0; i < sizes_.size(); ++i) {
      if (grad_outputs[i].defined()) {
        narrow_assign(grad_outputs[i], dim_, start, x.accumulate, x.tensor);
      }
      start += sizes_[i];
    }
  }
  [[nodiscard]] const char* name() const noexcept override { return "split"; }

 private:
  int dim_;
  std::vector<std::int64_t> sizes_;
};

class GatherNode : public PooledNode<GatherNode> {
 public:
  GatherNode(int dim, Tensor index) : dim_(dim), index_(std::move(index)) {}

  void backward(const Tensor& grad_output) override {
    if (const auto x = grad_target(0); x.wanted) {
      gather_backward(grad_output, dim_, index_, x.accumulate, x.tensor);
    }
  }
  [[nodiscard]] const char* name() const noexcept override { return "gather"; }

 private:
  int dim_;
  Tensor index_;
};

Shape concat_shape(std::span<const Variable> parts, int dim) {
  const Tensor& first = parts[0].data();
  std::int64_t total = 0;
  for (const Variable& part : parts) {
    const Tensor& t = part.data();
    if (t.dtype() != first.dtype() || t.dims() != first.dims() ||
        with_extent(t.shape(), dim, 0) != with_extent(first.shape(), dim, 0)) {
      throw ShapeError("concat along dimension " + std::to_string(dim) + " of " + describe(first) +
                       " and " + describe(t) + ": the other extents and dtypes must be equal");
    }
    total += t.size(dim);
  }
  return with_extent(first.shape(), dim, total);
}

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

Variable permute(const Variable& x, const Dims& dims) {
  if (dims.size() != x.shape().dims()) {
    throw ShapeError("permute of " + describe(x.data()) + " by " + std::to_string(dims.size()) +
                     " dimensions: every dimension must be named once");
  }
  const Dims order = resolve_dims(x.shape(), dims);
  std::array<std::int64_t, Shape::max_dims> extents{};
  std::array<int, Shape::max_dims> inverse{};
  for (int d = 0; d < order.size(); ++d) {
    extents[static_cast<std::size_t>(d)] = x.shape()[order[d]];
    inverse[static_cast<std::size_t>(order[d])] = d;
  }
  const auto count = static_cast<std::size_t>(order.size());
  Tensor y = Tensor::empty(Shape(std::span<const std::int64_t>(extents.data(), count)),
                           x.data().dtype(), x.data().device());
  permute_copy(x.data(), order, false, y);
  return record<PermuteNode>(std::move(y), {&x}, Dims(std::span<const int>(inverse.data(), count)));
}

Variable transpose(const Variable& x, int dim0, int dim1) {
  const int a = resolve_dim(x.shape(), dim0), b = resolve_dim(x.shape(), dim1);
  std::array<int, Shape::max_dims> order{};
  std::iota(order.begin(), order.end(), 0);
  std::swap(order[static_cast<std::size_t>(a)], order[static_cast<std::size_t>(b)]);
  return permute(
      x, Dims(std::span<const int>(order.data(), static_cast<std::size_t>(x.shape().dims()))));
}

Variable concat(std::span<const Variable> parts, int dim) {
  if (parts.empty()) throw ShapeError("concat needs one part at least");
  const int along = resolve_dim(parts[0].shape(), dim);
  const Shape shape = concat_shape(parts, along);
  if (parts.size() == 1) return parts[0];
  Tensor y = Tensor::empty(shape, parts[0].data().dtype(), parts[0].data().device());
  std::int64_t start = 0;
  for (const Variable& part : parts) {
    narrow_assign(part.data(), along, start, false, y);
    start += part.shape()[along];
  }
  return record<ConcatNode>(std::move(y), parts, along);
}

Variable narrow(const Variable& x, int dim, std::int64_t start, std::int64_t length) {
  const int along = resolve_dim(x.shape(), dim);
  if (start < 0 || length < 0 || start + length > x.shape()[along]) {
    throw ShapeError("narrow to [" + std::to_string(start) + ", " + std::to_string(start + length) +
                     ") of dimension " + std::to_string(dim) + " is not inside " +
                     describe(x.data()));
  }
  Tensor y =
      Tensor::empty(with_extent(x.shape(), along, length), x.data().dtype(), x.data().device());
  narrow_copy(x.data(), along, start, false, y);
  return record<NarrowNode>(std::move(y), {&x}, along, start);
}

std::vector<Variable> split(const Variable& x, std::span<const std::int64_t> sizes, int dim) {
  const int along = resolve_dim(x.shape(), dim);
  const std::int64_t total = std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
  if (total != x.shape()[along]) {
    throw ShapeError("split of " + describe(x.data()) + " along dimension " + std::to_string(dim) +
                     " into " + std::to_string(sizes.size()) + " parts of " +
                     std::to_string(total) + " in all: they must add up to the extent");
  }
  std::vector<Tensor> outputs;
  outputs.reserve(sizes.size());
  std::int64_t start = 0;
  for (const std::int64_t size : sizes) {
    if (size < 0) throw ShapeError("split into a part of " + std::to_string(size) + " elements");
    outputs.push_back(
        Tensor::empty(with_extent(x.shape(), along, size), x.data().dtype(), x.data().device()));
    narrow_copy(x.data(), along, start, false, outputs.back());
    start += size;
  }
  std::vector<Variable> parts(outputs.size());
  record<SplitNode>(outputs, std::span<Variable>(parts), {&x}, along,
                    std::vector<std::int64_t>(sizes.begin(), sizes.end()));
  return parts;
}

Variable gather(const Variable& x, int dim, const Tensor& index) {
  const int along = resolve_dim(x.shape(), dim);
  check_gather(x.data(), along, index);
  Tensor y = Tensor::empty(index.shape(), x.data().dtype(), x.data().device());
  gather_forward(x.data(), along, index, y);
  return record<GatherNode>(std::move(y), {&x}, along, index);
}

}  // namespace lockstep
