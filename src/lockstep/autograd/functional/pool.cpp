#include <lockstep/autograd/functional/pool.hpp>

#include <limits>
#include <string>
#include <utility>

#include <lockstep/autograd/accumulate.hpp>
#include <lockstep/autograd/functional/channels_last_pool.hpp>
#include <lockstep/autograd/functional/conv.hpp>
#include <lockstep/autograd/functional/gather_map.hpp>
#include <lockstep/autograd/linear_map.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/tensor/dims.hpp>
#include <lockstep/tensor/kernels/conv/channel_blocks.hpp>
#include <lockstep/tensor/kernels/pool/avg_pool2d.hpp>
#include <lockstep/tensor/kernels/pool/pool_nd.hpp>

namespace lockstep {
namespace {

/// [N,C, ...] as [N C, D, H, W].
Tensor as_planes(const Tensor& t, std::size_t dims) {
  Shape shape{t.size(0) * t.size(1), 1, 1, 1};
  for (std::size_t d = 0; d < dims; ++d) {
    shape = with_extent(shape, static_cast<int>(4 - dims + d), t.size(static_cast<int>(d) + 2));
  }
  return t.reshape(shape);
}

struct MaxPoolMap {
  std::size_t dims;
  PoolWindow window;
  Tensor indices;

  void apply(const Tensor& x, bool accumulate, const Tensor& y) const {
    detail::take_from_planes(x, indices, accumulate, y);
  }
  void transpose(const Tensor& y, bool accumulate, const Tensor& x) const {
    max_pool_backward(as_planes(y, dims), indices, window, accumulate, as_planes(x, dims));
  }
  [[nodiscard]] static const char* name() noexcept { return "max_pool"; }
};

struct AdaptiveMaxPoolMap {
  std::size_t dims;
  Tensor indices;

  void apply(const Tensor& x, bool accumulate, const Tensor& y) const {
    detail::take_from_planes(x, indices, accumulate, y);
  }
  void transpose(const Tensor& y, bool accumulate, const Tensor& x) const {
    adaptive_max_pool_backward(as_planes(y, dims), indices, accumulate, as_planes(x, dims));
  }
  [[nodiscard]] static const char* name() noexcept { return "adaptive_max_pool"; }
};

struct AvgPoolMap {
  std::size_t dims;
  AveragePool pool;

  void apply(const Tensor& x, bool accumulate, const Tensor& y) const {
    accumulate_into(y, accumulate, [&](const Tensor& to) {
      avg_pool_forward(as_planes(x, dims), pool, as_planes(to, dims));
    });
  }
  void transpose(const Tensor& y, bool accumulate, const Tensor& x) const {
    avg_pool_backward(as_planes(y, dims), pool, accumulate, as_planes(x, dims));
  }
  [[nodiscard]] static const char* name() noexcept { return "avg_pool"; }
};

struct AdaptiveAvgPoolMap {
  std::size_t dims;

  void apply(const Tensor& x, bool accumulate, const Tensor& y) const {
    accumulate_into(y, accumulate, [&](const Tensor& to) {
      adaptive_avg_pool_forward(as_planes(x, dims), as_planes(to, dims));
    });
  }
  void transpose(const Tensor& y, bool accumulate, const Tensor& x) const {
    adaptive_avg_pool_backward(as_planes(y, dims), accumulate, as_planes(x, dims));
  }
  [[nodiscard]] static const char* name() noexcept { return "adaptive_avg_pool"; }
};

struct SquareMaxPoolMap {
  SquareWindow window;
  Tensor indices;

  void apply(const Tensor& x, bool accumulate, const Tensor& y) const {
    detail::take_from_planes(x, indices, accumulate, y);
  }
  void transpose(const Tensor& y, bool accumulate, const Tensor& x) const {
    max_pool2d_backward(y, indices, window, accumulate, x);
  }
  [[nodiscard]] static const char* name() noexcept { return "max_pool2d"; }
};

struct SquareAvgPoolMap {
  SquareWindow window;
  bool count_include_pad;

  void apply(const Tensor& x, bool accumulate, const Tensor& y) const {
    accumulate_into(y, accumulate, [&](const Tensor& to) {
      avg_pool2d_forward(x, window, count_include_pad, to);
    });
  }
  void transpose(const Tensor& y, bool accumulate, const Tensor& x) const {
    avg_pool2d_backward(y, window, count_include_pad, accumulate, x);
  }
  [[nodiscard]] static const char* name() noexcept { return "avg_pool2d"; }
};

struct SquareAdaptiveAvgPoolMap {
  void apply(const Tensor& x, bool accumulate, const Tensor& y) const {
    accumulate_into(y, accumulate, [&](const Tensor& to) { adaptive_avg_pool2d_forward(x, to); });
  }
  void transpose(const Tensor& y, bool accumulate, const Tensor& x) const {
    adaptive_avg_pool2d_backward(y, accumulate, x);
  }
  [[nodiscard]] static const char* name() noexcept { return "adaptive_avg_pool2d"; }
};

/// A pool's window and the shape of its output.
struct Plan {
  PoolWindow window;
  Shape shape;
};

/// [N,C, ...] of what a pool takes.
template <std::size_t dims>
Shape shape_of(const char* operation, const Variable& x) {
  const Shape s = detail::is_channels_last(x) ? plain_shape(x.data()) : x.shape();
  if (s.dims() == static_cast<int>(dims) + 2) return s;
  throw ShapeError(std::string(operation) + std::to_string(dims) + "d of " + describe(x.data()) +
                   ": it takes [N, C, ...] of " + std::to_string(dims) + " spatial dimensions");
}

template <std::size_t dims>
Plan plan_of(const char* operation, const Variable& x, const PoolOptions<dims>& o) {
  const Shape shape = shape_of<dims>(operation, x);
  Plan plan{{}, shape};
  for (std::size_t d = 0; d < dims; ++d) {
    const int dimension = static_cast<int>(d) + 2;
    const std::int64_t kernel = o.kernel[d], stride = o.stride.or_kernel(o.kernel)[d];
    const std::int64_t padding = o.padding[d], extent = shape[dimension];
    const auto complain = [&](const std::string& why) {
      throw ShapeError(std::string(operation) + std::to_string(dims) + "d of " +
                       describe(x.data()) + " with kernel " + std::to_string(kernel) + ", stride " +
                       std::to_string(stride) + ", padding " + std::to_string(padding) +
                       " along dimension " + std::to_string(dimension) + ": " + why);
    };
    if (kernel < 1 || stride < 1 || padding < 0) {
      complain("kernel and stride are at least 1, padding at least 0");
    }
    if (2 * padding > kernel) complain("padding is above half the kernel");
    if (extent < 1) complain("the input is empty there");
    const std::int64_t room = extent + 2 * padding - kernel;
    if (room + (o.ceil_mode ? stride - 1 : 0) < 0)
      complain("the window is larger than the padded input");
    std::int64_t out = (o.ceil_mode ? room + stride - 1 : room) / stride + 1;
    // A window must begin within the input or the padding before it.
    if (o.ceil_mode && (out - 1) * stride >= extent + padding) --out;
    const std::size_t at = 3 - dims + d;
    plan.window.kernel[at] = kernel;
    plan.window.stride[at] = stride;
    plan.window.padding[at] = padding;
    plan.shape = with_extent(plan.shape, dimension, out);
  }
  return plan;
}

template <std::size_t dims>
Shape adaptive_shape(const char* operation, const Variable& x, const Extents<dims>& size) {
  Shape shape = shape_of<dims>(operation, x);
  for (std::size_t d = 0; d < dims; ++d) {
    const int dimension = static_cast<int>(d) + 2;
    if (size[d] < 1 || shape[dimension] < 1) {
      throw ShapeError(std::string(operation) + std::to_string(dims) + "d of " +
                       describe(x.data()) + " to extent " + std::to_string(size[d]) +
                       " of dimension " + std::to_string(dimension) + ": neither may be empty");
    }
    shape = with_extent(shape, dimension, size[d]);
  }
  return shape;
}

/// A max pool keeps the place of each largest element in its plane.
template <std::size_t dims>
void expect_places(const char* operation, const Variable& x) {
  std::int64_t plane = 1;
  for (int d = 2; d < x.shape().dims(); ++d) plane *= x.shape()[d];
  if (plane <= std::numeric_limits<std::int32_t>::max()) return;
  throw ShapeError(std::string(operation) + std::to_string(dims) + "d of " + describe(x.data()) +
                   ": a plane has more elements than a 32-bit index can address");
}

Tensor empty_of(const Shape& shape, const Variable& x) {
  return Tensor::empty(shape, x.data().dtype(), x.data().device());
}

Variable max_of_squares(const Variable& input, const SquareWindow& window) {
  return natively(
      [&](const Variable& x) {
        Tensor y = empty_of(max_pool2d_shape(x.shape(), window), x);
        Tensor indices = Tensor::empty(y.shape(), DType::i32, x.data().device());
        max_pool2d_forward(x.data(), window, y, indices);
        return record<LinearMapNode<SquareMaxPoolMap>>(
            std::move(y), {&x}, SquareMaxPoolMap{window, std::move(indices)});
      },
      input);
}

}  // namespace

std::optional<SquareWindow> detail::square_window(const PoolOptions<2>& o) noexcept {
  const Extents<2>& stride = o.stride.or_kernel(o.kernel);
  if (!o.kernel.uniform() || !stride.uniform() || !o.padding.uniform() || o.ceil_mode) return {};
  return SquareWindow{o.kernel[0], stride[0], o.padding[0]};
}

// Kernels of square windows store 16 bits; the others take f32.
template <std::size_t dims>
Variable max_pool(const Variable& input, const PoolOptions<dims>& options) {
  if constexpr (dims == 2) {
    if (detail::is_channels_last(input)) {
      const Plan plan = plan_of("max_pool", input, options);
      return fits_channels_last_max_pool(plan.window, input.data(), plan.shape)
                 ? detail::channels_last_max_pool(input, plan.window, plan.shape)
                 : max_pool(from_channel_blocks(input), options);
    }
    if (const auto window = detail::square_window(options)) return max_of_squares(input, *window);
  }
  const Operand x(input);
  const Plan plan = plan_of("max_pool", x, options);
  expect_places<dims>("max_pool", x);
  const Tensor y = empty_of(plan.shape, x);
  const Tensor indices = Tensor::empty(plan.shape, DType::i32, x.data().device());
  max_pool_forward(as_planes(x.data(), dims), plan.window, as_planes(y, dims), indices);
  return record<LinearMapNode<MaxPoolMap>>(y, {&x}, MaxPoolMap{dims, plan.window, indices});
}

template <std::size_t dims>
Variable avg_pool(const Variable& input, const PoolOptions<dims>& options, bool count_include_pad,
                  std::int64_t divisor_override) {
  if constexpr (dims == 2) {
    if (detail::is_channels_last(input)) {
      const Plan plan = plan_of("avg_pool", input, options);
      return detail::channels_last_avg_pool(
          input, AveragePool{plan.window, count_include_pad, divisor_override}, plan.shape);
    }
    const auto window = detail::square_window(options);
    if (window && divisor_override == 0) {
      return natively(
          [&](const Variable& x) {
            return linear_map(SquareAvgPoolMap{*window, count_include_pad}, x,
                              empty_of(avg_pool2d_shape(x.shape(), *window), x));
          },
          input);
    }
  }
  const Operand x(input);
  const Plan plan = plan_of("avg_pool", x, options);
  const AveragePool pool{plan.window, count_include_pad, divisor_override};
  return linear_map(AvgPoolMap{dims, pool}, x, empty_of(plan.shape, x));
}

template <std::size_t dims>
Variable adaptive_max_pool(const Variable& input, const Extents<dims>& output_size) {
  if constexpr (dims == 2) {
    if (detail::is_channels_last(input)) {
      const Shape shape = adaptive_shape("adaptive_max_pool", input, output_size);
      return fits_channels_last_max_pool({}, input.data(), shape)
                 ? detail::channels_last_max_pool(input, {}, shape)
                 : adaptive_max_pool(from_channel_blocks(input), output_size);
    }
  }
  const Operand x(input);
  const Shape shape = adaptive_shape("adaptive_max_pool", x, output_size);
  expect_places<dims>("adaptive_max_pool", x);
  const Tensor y = empty_of(shape, x);
  const Tensor indices = Tensor::empty(shape, DType::i32, x.data().device());
  adaptive_max_pool_forward(as_planes(x.data(), dims), as_planes(y, dims), indices);
  return record<LinearMapNode<AdaptiveMaxPoolMap>>(y, {&x}, AdaptiveMaxPoolMap{dims, indices});
}

template <std::size_t dims>
Variable adaptive_avg_pool(const Variable& input, const Extents<dims>& output_size) {
  if constexpr (dims == 2) {
    if (detail::is_channels_last(input)) {
      return detail::channels_last_avg_pool(
          input, {}, adaptive_shape("adaptive_avg_pool", input, output_size));
    }
    if (output_size.uniform()) {
      return natively(
          [&](const Variable& x) {
            return linear_map(SquareAdaptiveAvgPoolMap{}, x,
                              empty_of(adaptive_avg_pool2d_shape(x.shape(), output_size[0]), x));
          },
          input);
    }
  }
  const Operand x(input);
  return linear_map(AdaptiveAvgPoolMap{dims}, x,
                    empty_of(adaptive_shape("adaptive_avg_pool", x, output_size), x));
}

template Variable max_pool(const Variable&, const PoolOptions<1>&);
template Variable max_pool(const Variable&, const PoolOptions<2>&);
template Variable max_pool(const Variable&, const PoolOptions<3>&);
template Variable avg_pool(const Variable&, const PoolOptions<1>&, bool, std::int64_t);
template Variable avg_pool(const Variable&, const PoolOptions<2>&, bool, std::int64_t);
template Variable avg_pool(const Variable&, const PoolOptions<3>&, bool, std::int64_t);
template Variable adaptive_max_pool(const Variable&, const Extents<1>&);
template Variable adaptive_max_pool(const Variable&, const Extents<2>&);
template Variable adaptive_max_pool(const Variable&, const Extents<3>&);
template Variable adaptive_avg_pool(const Variable&, const Extents<1>&);
template Variable adaptive_avg_pool(const Variable&, const Extents<2>&);
template Variable adaptive_avg_pool(const Variable&, const Extents<3>&);

}  // namespace lockstep
