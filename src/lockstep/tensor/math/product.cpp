#include <lockstep/tensor/math/product.hpp>

#include <algorithm>
#include <string>

#include <lockstep/base/error.hpp>
#include <lockstep/tensor/dispatch.hpp>
#include <lockstep/tensor/kernels/for_each.hpp>
#include <lockstep/tensor/kernels/host_task.hpp>
#include <lockstep/tensor/math/gemm.hpp>
#include <lockstep/tensor/precision.hpp>
#include <lockstep/tensor/sum_dtype.hpp>

namespace lockstep::math {
namespace {

/// Matrices without their tensor.
struct Place {
  std::int64_t stride, offset, batch;
  bool transposed;
  explicit Place(const Matrices& m)
      : stride(m.stride), offset(m.offset), batch(m.batch), transposed(m.transposed) {}
};

/// Sets each row of c to the bias, or to 0.
template <class T, class Space>
void fill_rows_kernel(const Space& space, const ProductSize& size, const Matrices& c,
                      const Tensor& bias) {
  const Place at(c);
  const std::int64_t m = size.m, n = size.n;
  const auto out = flat_view<Space, T>(c.tensor);
  if (bias.defined()) {
    const auto b = flat_view<Space, const T>(bias);
    for_each_row(
        "lockstep::fill_rows", space, size.count * m, n,
        KOKKOS_LAMBDA(std::int64_t r, const Lanes<Space>& lanes) {
          const std::int64_t begin = at.offset + r / m * at.batch + r % m * at.stride;
          lanes.each([&](std::int64_t i) { out(begin + i) = b(i); });
        });
  } else {
    for_each_row(
        "lockstep::fill_rows", space, size.count * m, n,
        KOKKOS_LAMBDA(std::int64_t r, const Lanes<Space>& lanes) {
          const std::int64_t begin = at.offset + r / m * at.batch + r % m * at.stride;
          lanes.each([&](std::int64_t i) { out(begin + i) = T(); });
        });
  }
}

void fill_rows(const char* name, const ProductSize& size, const Matrices& c, const Tensor& bias) {
  dispatch(current_stream(c.tensor.device()), [&](const auto& space) {
    dispatch_stored(c.tensor.dtype(), name,
                    [&]<class T>() { fill_rows_kernel<T>(space, size, c, bias); });
  });
}

template <class T>
struct Stack {
  T* data;
  Place at;

  Stack(const HostArray& array, const Place& place)
      : data(static_cast<T*>(array.data()) + place.offset), at(place) {}
  [[nodiscard]] math::Matrix<std::remove_const_t<T>> operator[](std::int64_t i) const {
    return {data + i * at.batch, at.stride, at.transposed};
  }
};

/// Uses the host's libraries. T is the type of the operands, C that of the result.
template <class T, class C>
void product_on_host(const char* name, ProductSize size, const Matrices& a, const Matrices& b,
                     const Matrices& c, const Tensor& bias) {
  if (bias.defined() && sizeof(T) != 2) {
    fill_rows(name, size, c, bias);
    size.accumulate = true;
  }
  host_task(
      name,
      [size, at_a = Place(a), at_b = Place(b), at_c = Place(c)](
          const HostArray& a, const HostArray& b, const HostArray& c, const HostArray& bias) {
        const Stack<const T> left(a, at_a), right(b, at_b);
        C* const result = static_cast<C*>(c.data()) + at_c.offset;
        for (std::int64_t i = 0; i < size.count; ++i) {
          const bool adds = size.accumulate || (i > 0 && at_c.batch == 0);
          C* const to = result + i * at_c.batch;
          const SumOf<T> beta{adds ? 1.0F : 0.0F};
          if constexpr (sizeof(T) == 2) {
            gemm(size.m, size.n, size.k, left[i], right[i], beta, to, at_c.stride,
                 static_cast<const C*>(bias.data()));
          } else {
            gemm(size.m, size.n, size.k, left[i], right[i], beta, to, at_c.stride);
          }
        }
      },
      a.tensor, b.tensor, c.tensor, bias);
}

/// The same matrices of the tensor, from number `begin` on.
Matrices from(const Matrices& m, const Tensor& tensor, std::int64_t begin) {
  return {tensor, m.stride, m.transposed, m.offset + begin * m.batch, m.batch};
}

const std::byte* address(const Matrices& m) {
  return static_cast<const std::byte*>(m.tensor.kernel_data()) +
         m.offset * static_cast<std::int64_t>(size_of(m.tensor.dtype()));
}

ProductAddresses addresses(const Matrices& a, const Matrices& b, const Matrices& c,
                           const Tensor& vector, const Matrices* second = nullptr) {
  return {address(b), address(a), const_cast<std::byte*>(address(c)), vector.kernel_data(),
          second != nullptr ? const_cast<std::byte*>(address(*second)) : nullptr};
}

void run_product(DeviceMath& math, const char* name, const ProductSize& size, const Matrices& a,
                 const Matrices& b, const Matrices& c, const Tensor& bias) {
  const auto is_run = [&](const ProductSize& of, const Tensor& added) {
    const Epilogue epilogue = added.defined() ? Epilogue::add_bias : Epilogue::none;
    return run(math, name, column_major(name, of, a, b, c, epilogue, added),
               addresses(a, b, c, added), c.tensor.device());
  };
  if (is_run(size, bias)) return;
  fill_rows(name, size, c, bias);
  ProductSize apart = size;
  apart.accumulate = true;
  static_cast<void>(is_run(apart, {}));
}

/// Uses the libraries of a GPU.
void product_on_device(DeviceMath& math, const char* name, ProductSize size, const Matrices& a,
                       const Matrices& b, const Matrices& c, Tensor bias) {
  static_cast<void>(
      lockstep::detail::common_device(name, {&a.tensor, &b.tensor, &c.tensor, &bias}));
  if (size.m == 0 || size.n == 0 || size.count == 0) return;
  // The libraries have epilogues for sums in f32 only.
  const bool adds_bias_first = bias.defined() && (size.k == 0 || c.tensor.dtype() == DType::f64);
  if (adds_bias_first || (size.k == 0 && !size.accumulate)) {
    fill_rows(name, size, c, bias);
    size.accumulate = true;
    bias = {};
  }
  if (size.k == 0) return;
  const Tensor left = product_operand(a.tensor), right = product_operand(b.tensor);
  const bool into_one = c.batch == 0 && size.count > 1;
  constexpr std::int64_t most = 65'535;  // of the blocks along a grid's third dimension
  const std::int64_t together = into_one ? 1 : most;
  for (std::int64_t begin = 0; begin < size.count; begin += together) {
    ProductSize part = size;
    part.count = std::min(size.count - begin, together);
    part.accumulate = size.accumulate || (into_one && begin > 0);
    run_product(math, name, part, from(a, left, begin), from(b, right, begin),
                from(c, c.tensor, begin), bias);
  }
}

void expect_dtypes(const char* name, const Matrices& a, const Matrices& b, const Matrices& c,
                   const Tensor& bias) {
  const DType operands = a.tensor.dtype(), result = c.tensor.dtype();
  if (b.tensor.dtype() == operands && (result == operands || result == sum_dtype(operands)) &&
      (!bias.defined() || bias.dtype() == result)) {
    return;
  }
  throw ShapeError(std::string(name) + " multiplies " + describe(a.tensor) + " by " +
                   describe(b.tensor) + " into " + describe(c.tensor) +
                   ": both operands have one dtype; the result and a bias have it too, or are "
                   "both f32 for operands of 16 bits");
}

/// One call of a GPU's library with an epilogue of gelu, or false.
bool product_of_gelu(const char* name, const ProductSize& size, const Matrices& a,
                     const Matrices& b, const Matrices& pre, const Matrices& c, Epilogue epilogue,
                     const Tensor& bias) {
  const Device device = a.tensor.device();
  DeviceMath* const gpu = device_math(device);
  if (gpu == nullptr) return false;
  expect_dtypes(name, a, b, c, bias);
  static_cast<void>(
      lockstep::detail::common_device(name, {&a.tensor, &b.tensor, &c.tensor, &pre.tensor, &bias}));
  const DType dtype = a.tensor.dtype();
  const bool is_empty = size.m == 0 || size.n == 0 || size.k == 0;
  if (!is_half(dtype) || c.tensor.dtype() != dtype || pre.tensor.dtype() != dtype || is_empty ||
      size.n % 8 != 0) {
    return false;
  }
  return run(*gpu, name, column_major(name, size, a, b, c, epilogue, bias, &pre),
             addresses(a, b, c, bias, &pre), device);
}

}  // namespace

void product(const char* name, const ProductSize& size, const Matrices& a, const Matrices& b,
             const Matrices& c, const Tensor& bias) {
  dispatch_stored(a.tensor.dtype(), name, [&]<class T>() {
    using Sum = SumOf<T>;
    expect_dtypes(name, a, b, c, bias);
    const DType result = c.tensor.dtype();
    const bool is_stored = result == dtype_of<T>;  // as the operands are
    if (is_half(result) && c.batch == 0 && size.count > 1) {
      throw ShapeError(std::string(name) + " sums " + std::to_string(size.count) +
                       " products into " + describe(c.tensor) +
                       ", which would round each: sum them in f32");
    }
    if (DeviceMath* const gpu = device_math(a.tensor.device())) [[unlikely]] {
      product_on_device(*gpu, name, size, a, b, c, bias);
    } else if (is_stored) {
      product_on_host<T, T>(name, size, a, b, c, bias);
    } else {
      product_on_host<T, Sum>(name, size, a, b, c, bias);
    }
  });
}

bool product_with_row_sums(const char* name, const ProductSize& size, const Matrices& a,
                           const Matrices& b, const Matrices& c, const Tensor& row_sums) {
  const Device device = a.tensor.device();
  DeviceMath* const gpu = device_math(device);
  if (gpu == nullptr) return false;
  expect_dtypes(name, a, b, c, {});
  static_cast<void>(
      lockstep::detail::common_device(name, {&a.tensor, &b.tensor, &c.tensor, &row_sums}));
  const DType operands = a.tensor.dtype(), result = c.tensor.dtype();
  const bool sums_in_f32 = result == DType::f32 || is_half(result);
  const bool rounds = operands == DType::f32 && product_precision() != Precision::f32;
  const bool is_empty = size.m == 0 || size.n == 0 || size.k == 0;
  if (!sums_in_f32 || row_sums.dtype() != result || rounds || is_empty) return false;
  const ColumnMajorProduct p = column_major(name, size, a, b, c, Epilogue::sum_right, row_sums);
  return !p.tf32 && run(*gpu, name, p, addresses(a, b, c, row_sums), device);
}

bool product_with_gelu(const char* name, const ProductSize& size, const Matrices& a,
                       const Matrices& b, const Matrices& pre, const Matrices& c,
                       const Tensor& bias) {
  return product_of_gelu(name, size, a, b, pre, c, Epilogue::add_bias_gelu, bias);
}

bool product_with_gelu_slope(const char* name, const ProductSize& size, const Matrices& a,
                             const Matrices& b, const Matrices& pre, const Matrices& c) {
  return product_of_gelu(name, size, a, b, pre, c, Epilogue::gelu_slope, {});
}

}  // namespace lockstep::math
