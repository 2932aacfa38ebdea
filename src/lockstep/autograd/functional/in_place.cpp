#include <string>

#include <lockstep/autograd/functional/arithmetic.hpp>
#include <lockstep/autograd/functional/shape.hpp>
#include <lockstep/base/error.hpp>

namespace lockstep {

Variable Variable::operator[](std::int64_t i) const {
  const std::int64_t rows = shape().dims() == 0 ? 0 : shape()[0], row = i < 0 ? i + rows : i;
  if (row < 0 || row >= rows) {
    throw ShapeError("there is no row " + std::to_string(i) + " in a variable " + describe(data()));
  }
  return reshape(narrow(*this, 0, row, 1), shape().without_leading());
}

Variable& Variable::become(const char* operation, const Variable& result) {
  if (grad_enabled() && is_leaf() && requires_grad()) {
    throw Error(
        std::string("x ") + operation +
        " y, where x is a leaf that requires a gradient: its value may change only while nothing "
        "is recorded. Put it under a NoGradGuard, or write x = x + y to get a new result");
  }
  if (grad_enabled() && is_leaf() && !result.requires_grad() && record_->owners() > 1) {
    throw Error(
        std::string("x ") + operation +
        " y, where x is a leaf that other handles share, such as a model's parameter: they "
        "would keep the old value. Put it under a NoGradGuard to change the value of all, or "
        "write x = x + y for a new one of this handle");
  }
  if (result.shape() != shape()) {
    throw ShapeError(std::string("x ") + operation + " y, where x is " + describe(data()) +
                     ": the result would be " + describe(result.data()) +
                     ", but x keeps its shape");
  }
  if (grad_enabled()) {
    *this = result;
  } else {
    data().copy_from(result.data().to(data().dtype()));
    increment_version();
  }
  return *this;
}

Variable& Variable::operator+=(const Variable& y) & { return become("+=", *this + y); }
Variable& Variable::operator-=(const Variable& y) & { return become("-=", *this - y); }
Variable& Variable::operator*=(const Variable& y) & { return become("*=", *this * y); }
Variable& Variable::operator/=(const Variable& y) & { return become("/=", *this / y); }
Variable& Variable::operator+=(double number) & { return become("+=", *this + number); }
Variable& Variable::operator-=(double number) & { return become("-=", *this - number); }
Variable& Variable::operator*=(double number) & { return become("*=", *this * number); }
Variable& Variable::operator/=(double number) & { return become("/=", *this / number); }

}  // namespace lockstep
