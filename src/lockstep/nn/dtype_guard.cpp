#include <lockstep/nn/dtype_guard.hpp>

#include <string>

#include <lockstep/base/error.hpp>

namespace lockstep::nn {
namespace {

DType& current() noexcept {
  thread_local DType dtype = DType::f32;
  return dtype;
}

}  // namespace

DTypeGuard::DTypeGuard(DType dtype) : before_(current()) {
  if (dtype != DType::f32 && dtype != DType::f64) {
    throw ShapeError("modules hold their parameters in f32 or f64, not " +
                     std::string(name_of(dtype)));
  }
  current() = dtype;
}

DTypeGuard::~DTypeGuard() { current() = before_; }

DType default_dtype() noexcept { return current(); }

}  // namespace lockstep::nn
