#include <cmath>
#include <string>

#include <lockstep/base/error.hpp>
#include <lockstep/tensor/kernels/arithmetic.hpp>
#include <lockstep/tensor/kernels/broadcast.hpp>
#include <lockstep/tensor/tensor.hpp>

namespace lockstep {
namespace {

/// Of f32 and f64; 16 bits are computed in f32.
void apply(Arithmetic op, const Tensor& t, const Tensor& other) {
  if (!is_half(t.dtype())) return arithmetic(op, t, other, false, t);
  const Tensor wide = t.to(DType::f32);
  arithmetic(op, wide, other.to(DType::f32), false, wide);
  t.copy_from(wide.to(t.dtype()));
}

template <class T>
void apply_whole(Arithmetic op, const Tensor& t, double number) {
  std::vector<T> elements = t.to_vector<T>();
  const T n = static_cast<T>(number);
  for (T& element : elements) {
    element = static_cast<T>(op == Arithmetic::add        ? element + n
                             : op == Arithmetic::subtract ? element - n
                                                          : element * n);
  }
  t.copy_from_host(std::span<const T>(elements));
}

const Tensor& apply_number(const char* sign, Arithmetic op, const Tensor& t, double number) {
  if (is_floating(t.dtype())) {
    const DType wide = t.dtype() == DType::f64 ? DType::f64 : DType::f32;
    apply(op, t, Tensor::full({}, number, wide, t.device()));
    return t;
  }
  if (t.dtype() == DType::boolean || op == Arithmetic::divide || std::trunc(number) != number) {
    throw ShapeError(describe(t) + " " + sign + " " + std::to_string(number) +
                     ": the result is not of this dtype; convert the tensor with to() first");
  }
  if (t.dtype() == DType::i64) apply_whole<std::int64_t>(op, t, number);
  if (t.dtype() == DType::i32) apply_whole<std::int32_t>(op, t, number);
  if (t.dtype() == DType::u8) apply_whole<std::uint8_t>(op, t, number);
  return t;
}

const Tensor& apply_tensor(const char* sign, Arithmetic op, const Tensor& t, const Tensor& other) {
  if (!t.defined() || !other.defined() || !is_floating(t.dtype()) || t.dtype() != other.dtype() ||
      t.device() != other.device() || t.layout() != Layout::plain ||
      other.layout() != Layout::plain || !broadcasts_to(other.shape(), t.shape())) {
    throw ShapeError(describe(t) + " " + sign + " " + describe(other) +
                     ": both must be floating and of one dtype, and the second must be repeatable "
                     "to the shape of the first");
  }
  apply(op, t, other);
  return t;
}

}  // namespace

const Tensor& Tensor::operator+=(double number) const {
  return apply_number("+=", Arithmetic::add, *this, number);
}
const Tensor& Tensor::operator-=(double number) const {
  return apply_number("-=", Arithmetic::subtract, *this, number);
}
const Tensor& Tensor::operator*=(double number) const {
  return apply_number("*=", Arithmetic::multiply, *this, number);
}
const Tensor& Tensor::operator/=(double number) const {
  return apply_number("/=", Arithmetic::divide, *this, number);
}
const Tensor& Tensor::operator+=(const Tensor& other) const {
  return apply_tensor("+=", Arithmetic::add, *this, other);
}
const Tensor& Tensor::operator-=(const Tensor& other) const {
  return apply_tensor("-=", Arithmetic::subtract, *this, other);
}
const Tensor& Tensor::operator*=(const Tensor& other) const {
  return apply_tensor("*=", Arithmetic::multiply, *this, other);
}
const Tensor& Tensor::operator/=(const Tensor& other) const {
  return apply_tensor("/=", Arithmetic::divide, *this, other);
}

}  // namespace lockstep
