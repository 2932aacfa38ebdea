#include <cmath>
#include <cstddef>
#include <functional>
#include <string>

#include <lockstep/base/error.hpp>
#include <lockstep/tensor/kernels/broadcast.hpp>
#include <lockstep/tensor/kernels/elementwise/arithmetic.hpp>
#include <lockstep/tensor/kernels/elementwise/elementwise.hpp>
#include <lockstep/tensor/tensor.hpp>

namespace lockstep {
namespace {

void apply_whole(Arithmetic op, const Tensor& t, double number) {
  const auto n = static_cast<std::uint64_t>(static_cast<std::int64_t>(number));
  if (op == Arithmetic::multiply) return affine_of_whole(t, n, 0);
  affine_of_whole(t, 1, op == Arithmetic::add ? n : 0 - n);
}

const Tensor& apply_number(const char* sign, Arithmetic op, const Tensor& t, double number) {
  if (is_floating(t.dtype())) {
    const bool subtracts = op == Arithmetic::subtract;
    arithmetic(subtracts ? Arithmetic::add : op, t, subtracts ? -number : number, false, t);
    return t;
  }
  const bool is_whole = std::trunc(number) == number && std::abs(number) < 0x1p63;
  if (t.dtype() == DType::boolean || op == Arithmetic::divide || !is_whole) {
    throw ShapeError(describe(t) + " " + sign + " " + std::to_string(number) +
                     ": the result is not of this dtype; convert the tensor with to() first");
  }
  apply_whole(op, t, number);
  return t;
}

/// True if writing to `t` would overwrite elements of `other` that are still to be read, as in x -=
/// x[0].
bool shares_part(const Tensor& t, const Tensor& other) {
  const auto* a = static_cast<const std::byte*>(t.data());
  const auto* b = static_cast<const std::byte*>(other.data());
  const bool is_same = a == b && t.shape() == other.shape();
  return !is_same && std::less<>()(a, b + other.bytes()) && std::less<>()(b, a + t.bytes());
}

const Tensor& apply_tensor(const char* sign, Arithmetic op, const Tensor& t, const Tensor& other) {
  if (!t.defined() || !other.defined() || !is_floating(t.dtype()) || t.dtype() != other.dtype() ||
      t.device() != other.device() || t.layout() != Layout::plain ||
      other.layout() != Layout::plain || !broadcasts_to(other.shape(), t.shape())) {
    throw ShapeError(describe(t) + " " + sign + " " + describe(other) +
                     ": both must be floating and of one dtype, and the second must be repeatable "
                     "to the shape of the first");
  }
  arithmetic(op, t, shares_part(t, other) ? other.clone() : other, false, t);
  return t;
}

}  // namespace

const Tensor& Tensor::operator+=(double number) const {
  expect_writable("+=");
  return apply_number("+=", Arithmetic::add, *this, number);
}
const Tensor& Tensor::operator-=(double number) const {
  expect_writable("-=");
  return apply_number("-=", Arithmetic::subtract, *this, number);
}
const Tensor& Tensor::operator*=(double number) const {
  expect_writable("*=");
  return apply_number("*=", Arithmetic::multiply, *this, number);
}
const Tensor& Tensor::operator/=(double number) const {
  expect_writable("/=");
  return apply_number("/=", Arithmetic::divide, *this, number);
}
const Tensor& Tensor::operator+=(const Tensor& other) const {
  expect_writable("+=");
  return apply_tensor("+=", Arithmetic::add, *this, other);
}
const Tensor& Tensor::operator-=(const Tensor& other) const {
  expect_writable("-=");
  return apply_tensor("-=", Arithmetic::subtract, *this, other);
}
const Tensor& Tensor::operator*=(const Tensor& other) const {
  expect_writable("*=");
  return apply_tensor("*=", Arithmetic::multiply, *this, other);
}
const Tensor& Tensor::operator/=(const Tensor& other) const {
  expect_writable("/=");
  return apply_tensor("/=", Arithmetic::divide, *this, other);
}

}  // namespace lockstep
