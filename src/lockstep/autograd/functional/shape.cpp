#include <lockstep/autograd/functional/shape.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include <lockstep/autograd/differentiation.hpp>
#include <lockstep/autograd/functional/arithmetic.hpp>
#include <lockstep/autograd/functional/gather_map.hpp>
#include <lockstep/autograd/linear_map.hpp>
#include <lockstep/autograd/node.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/tensor/kernels/data/index.hpp>
#include <lockstep/tensor/kernels/elementwise/copy.hpp>

namespace lockstep {
namespace {

class ReshapeNode : public PooledNode<ReshapeNode> {
 public:
  static constexpr std::uint32_t saved_inputs = 0;
  static constexpr bool is_view = true;

  void backward(const Tensor& grad_output) override {
    pass_grad(0, grad_output.reshape(input(0).shape()));
  }
  void differentiate(Differentiation& d) override {
    d.give(0, reshape(d.grad_output(), input(0).shape()));
  }
  [[nodiscard]] const char* name() const noexcept override { return "reshape"; }
};

struct PermuteMap {
  Dims order, inverse;

  void apply(const Tensor& x, bool accumulate, const Tensor& y) const {
    permute_copy(x, order, accumulate, y);
  }
  void transpose(const Tensor& y, bool accumulate, const Tensor& x) const {
    permute_copy(y, inverse, accumulate, x);
  }
  [[nodiscard]] static const char* name() noexcept { return "permute"; }
};

struct NarrowMap {
  int dim;
  std::int64_t start;

  void apply(const Tensor& x, bool accumulate, const Tensor& y) const {
    narrow_copy(x, dim, start, accumulate, y);
  }
  void transpose(const Tensor& y, bool accumulate, const Tensor& x) const {
    if (!accumulate) x.zero();
    narrow_assign(y, dim, start, accumulate, x);
  }
  [[nodiscard]] static const char* name() noexcept { return "narrow"; }
};

class ConcatNode : public PooledNode<ConcatNode> {
 public:
  static constexpr std::uint32_t saved_inputs = 0;

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
  void differentiate(Differentiation& d) override {
    std::int64_t start = 0;
    for (int i = 0; i < input_count(); ++i) {
      const std::int64_t length = input(i).shape()[dim_];
      if (d.wants(i)) d.give(i, narrow(d.grad_output(), dim_, start, length));
      start += length;
    }
  }
  [[nodiscard]] const char* name() const noexcept override { return "concat"; }

 private:
  int dim_;
};

class SplitNode : public MultiOutputNode<SplitNode> {
 public:
  static constexpr std::uint32_t saved_inputs = 0;

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
  void differentiate(Differentiation& d) override {
    const Tensor& x = input(0).data();
    std::vector<Variable> parts;
    for (std::size_t i = 0; i < sizes_.size(); ++i) {
      const Variable& part = d.grad_output(static_cast<int>(i));
      const Shape shape = with_extent(x.shape(), dim_, sizes_[i]);
      parts.push_back(part.defined() ? part
                                     : Variable(Tensor::zeros(shape, x.dtype(), x.device())));
    }
    d.give(0, concat(parts, dim_));
  }
  [[nodiscard]] const char* name() const noexcept override { return "split"; }

 private:
  int dim_;
  std::vector<std::int64_t> sizes_;
};

Shape concat_shape(std::span<const Variable> parts, int dim) {
  const Tensor& first = parts[0].data();
  std::int64_t total = 0;
  for (const Variable& part : parts) {
    const Tensor& t = part.data();
    const bool promotes = is_floating(t.dtype()) && is_floating(first.dtype());
    if ((t.dtype() != first.dtype() && !promotes) || t.dims() != first.dims() ||
        with_extent(t.shape(), dim, 0) != with_extent(first.shape(), dim, 0)) {
      throw ShapeError("concat along dimension " + std::to_string(dim) + " of " + describe(first) +
                       " and " + describe(t) +
                       ": the other extents must be equal, and dtypes equal or floating");
    }
    total += t.size(dim);
  }
  return with_extent(first.shape(), dim, total);
}

/// The widest dtype of the parts; of bf16 and f16, f32.
DType promoted_dtype(std::span<const Variable> parts) {
  DType dtype = parts[0].data().dtype();
  for (const Variable& part : parts) {
    const DType other = part.data().dtype();
    if (other == dtype) continue;
    dtype = dtype == DType::f64 || other == DType::f64 ? DType::f64 : DType::f32;
  }
  return dtype;
}

/// map x, of this shape.
template <class Map>
Variable mapped(const Map& map, const Variable& input, const Shape& shape) {
  return natively(
      [&](const Variable& x) {
        return linear_map(map, x, Tensor::empty(shape, x.data().dtype(), x.data().device()));
      },
      input);
}

std::vector<Variable> parts_of(const Variable& x, std::span<const std::int64_t> sizes, int along) {
  std::vector<Tensor> outputs;
  outputs.reserve(sizes.size());
  std::int64_t start = 0;
  for (const std::int64_t size : sizes) {
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

}  // namespace

// The gradient is passed on, so a parameter is taken as it is.
Variable reshape(const Variable& x, const OpenShape& shape) {
  return record<ReshapeNode>(x.data().reshape(shape), {&x});
}

Variable flatten(const Variable& x, int start_dim, int end_dim) {
  const Shape shape = x.shape().dims() == 0 ? Shape{1} : x.shape();
  const int first = resolve_dim(shape, start_dim), last = resolve_dim(shape, end_dim);
  if (first > last) {
    throw ShapeError(
        fmt::format("flatten of {} from dimension {} to {}: name the earlier one first",
                    describe(x.data()), start_dim, end_dim));
  }
  std::array<std::int64_t, Shape::max_dims> extents{};
  std::size_t count = 0;
  for (int d = 0; d < first; ++d) extents[count++] = shape[d];
  std::int64_t& together = extents[count++];
  together = 1;
  for (int d = first; d <= last; ++d) together *= shape[d];
  for (int d = last + 1; d < shape.dims(); ++d) extents[count++] = shape[d];
  return reshape(x, Shape(std::span(extents).first(count)));
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
  const Shape permuted(std::span<const std::int64_t>(extents.data(), count));
  const PermuteMap map{order, Dims(std::span<const int>(inverse.data(), count))};
  return mapped(map, x, permuted);
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
  if (parts.empty()) throw ShapeError("concat needs at least one part");
  const int along = resolve_dim(parts[0].shape(), dim);
  const Shape shape = concat_shape(parts, along);
  if (parts.size() == 1) return parts[0];
  const DType dtype = promoted_dtype(parts);
  const auto is_operand = [&](const Variable& part) {
    return part.data().dtype() == dtype && is_native(part);
  };
  if (!std::ranges::all_of(parts, is_operand)) {
    std::vector<Variable> wide;
    for (const Variable& part : parts)
      wide.push_back(to(part, dtype == DType::f64 ? dtype : DType::f32));
    return to(concat(wide, dim), dtype);
  }
  Tensor y = Tensor::empty(shape, dtype, parts[0].data().device());
  std::int64_t start = 0;
  for (const Variable& part : parts) {
    narrow_assign(part.data(), along, start, false, y);
    start += part.shape()[along];
  }
  return record<ConcatNode>(std::move(y), parts, along);
}

Variable narrow(const Variable& x, int dim, std::int64_t start, std::int64_t length) {
  const int along = resolve_dim(x.shape(), dim);
  const std::int64_t extent = x.shape()[along], first = start < 0 ? start + extent : start;
  if (first < 0 || length < 0 || first + length > extent) {
    throw ShapeError("narrow to [" + std::to_string(start) + ", " + std::to_string(start + length) +
                     ") of dimension " + std::to_string(dim) + " is not inside " +
                     describe(x.data()));
  }
  return mapped(NarrowMap{along, first}, x, with_extent(x.shape(), along, length));
}

std::vector<Variable> split(const Variable& x, std::span<const std::int64_t> sizes, int dim) {
  const int along = resolve_dim(x.shape(), dim);
  const std::int64_t extent = x.shape()[along];
  for (const std::int64_t size : sizes) {
    if (size >= 0 && size <= extent) continue;
    throw ShapeError("split of " + describe(x.data()) + " along dimension " + std::to_string(dim) +
                     " into a part of " + std::to_string(size) + " elements");
  }
  const std::int64_t total = std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
  if (total != extent) {
    throw ShapeError("split of " + describe(x.data()) + " along dimension " + std::to_string(dim) +
                     " into " + std::to_string(sizes.size()) + " parts of " +
                     std::to_string(total) + " in all: they must add up to the extent");
  }
  return is_native(x) ? parts_of(x, sizes, along) : parts_of(Operand(x), sizes, along);
}

Variable gather(const Variable& x, int dim, const Tensor& index) {
  const int along = resolve_dim(x.shape(), dim);
  return mapped(detail::GatherMap{"gather", along, checked_gather(x.data(), along, index)}, x,
                index.shape());
}

}  // namespace lockstep
