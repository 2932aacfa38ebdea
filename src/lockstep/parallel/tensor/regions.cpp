#include <lockstep/parallel/tensor/regions.hpp>

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <utility>

#include <lockstep/autograd/differentiation.hpp>
#include <lockstep/autograd/functional/shape.hpp>
#include <lockstep/autograd/node.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/comm/call_label.hpp>
#include <lockstep/tensor/dims.hpp>

namespace lockstep {
namespace {

Tensor sum_over_ranks(const Tensor& x, ProcessGroup& group) {
  Tensor y = Tensor::empty_like(x);
  group.all_reduce(x, y, ReduceOp::sum).wait();
  return y;
}

class CopyNode : public PooledNode<CopyNode> {
 public:
  static constexpr std::uint32_t saved_inputs = 0;

  explicit CopyNode(GroupPtr group) : group_(std::move(group)) {}
  void backward(const Tensor& grad_output) override {
    const CallLabel label("gradient of a tensor-parallel input");
    pass_grad(0, sum_over_ranks(grad_output, *group_));
  }
  void differentiate(Differentiation& d) override {
    d.give(0, reduce_from_group(d.grad_output(), group_));
  }
  [[nodiscard]] const char* name() const noexcept override { return "copy_to_group"; }

 private:
  GroupPtr group_;
};

class ReduceNode : public PooledNode<ReduceNode> {
 public:
  static constexpr std::uint32_t saved_inputs = 0;

  explicit ReduceNode(GroupPtr group) : group_(std::move(group)) {}
  void backward(const Tensor& grad_output) override { pass_grad(0, grad_output); }
  void differentiate(Differentiation& d) override {
    d.give(0, copy_to_group(d.grad_output(), group_));
  }
  [[nodiscard]] const char* name() const noexcept override { return "reduce_from_group"; }

 private:
  GroupPtr group_;
};

/// `shape` with dimension `dim` as [first, second].
Shape with_split(const Shape& shape, int dim, std::int64_t first, std::int64_t second) {
  std::array<std::int64_t, Shape::max_dims + 1> extents{};
  int dims = 0;
  for (int d = 0; d < shape.dims(); ++d) {
    if (d == dim) extents[static_cast<std::size_t>(dims++)] = first;
    extents[static_cast<std::size_t>(dims++)] = d == dim ? second : shape[d];
  }
  return Shape(std::span(extents).first(static_cast<std::size_t>(dims)));
}

/// x with dimension `from` at place `to`.
Variable moved(const Variable& x, int from, int to) {
  if (from == to) return x;
  std::array<int, Shape::max_dims> order{};
  const int dims = x.shape().dims();
  for (int place = 0, d = 0; place < dims; ++place) {
    if (d == from) ++d;
    order[static_cast<std::size_t>(place)] = place == to ? from : d++;
  }
  return permute(x, Dims(std::span<const int>(order).first(static_cast<std::size_t>(dims))));
}

}  // namespace

Variable copy_to_group(const Variable& x, const GroupPtr& group) {
  return record<CopyNode>(x.data(), {&x}, group);
}

Variable reduce_from_group(const Variable& x, const GroupPtr& group) {
  const CallLabel label("tensor-parallel output");
  return record<ReduceNode>(sum_over_ranks(x.data(), *group), {&x}, group);
}

Variable scatter_to_group(const Variable& x, int dim, std::int64_t start, std::int64_t length,
                          const GroupPtr& group) {
  return narrow(copy_to_group(x, group), dim, start, length);
}

Variable gather_from_group(const Variable& x, int dim, std::int64_t start, std::int64_t whole,
                           const GroupPtr& group) {
  const int d = resolve_dim(x.shape(), dim);
  const std::int64_t behind = whole - start - x.shape()[d];
  const auto zeros = [&](std::int64_t extent) {
    return Variable(
        Tensor::zeros(with_extent(x.shape(), d, extent), x.data().dtype(), x.data().device()));
  };
  return reduce_from_group(concat({zeros(start), x, zeros(behind)}, d), group);
}

Variable all_gather_along(const Variable& x, int dim, const GroupPtr& group) {
  const int d = resolve_dim(x.shape(), dim);
  const Shape whole = with_extent(x.shape(), d, x.shape()[d] * group->size());
  return reshape(moved(all_gather(x, group), 0, d), whole);
}

Variable reduce_scatter_along(const Variable& x, int dim, const GroupPtr& group) {
  const int d = resolve_dim(x.shape(), dim);
  const Slice mine = equal_slice("reduce_scatter_along", x.shape()[d], *group);
  const Variable by_rank = reshape(x, with_split(x.shape(), d, group->size(), mine.count));
  return reduce_scatter(moved(by_rank, d, 0), group);
}

Slice equal_slice(const char* what, std::int64_t extent, const ProcessGroup& group) {
  if (extent % group.size() != 0) {
    throw ShapeError(std::string(what) + ": the " + std::to_string(group.size()) +
                     " ranks must divide the extent of " + std::to_string(extent) +
                     " that they share out");
  }
  const std::int64_t count = extent / group.size();
  return {group.rank() * count, count};
}

}  // namespace lockstep
