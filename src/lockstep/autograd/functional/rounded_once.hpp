#pragma once
#include <lockstep/autograd/functional/arithmetic.hpp>

namespace lockstep::detail {

/// f(x), for an x of 16 bits computed in f32 and rounded once: for what consists of several
/// operations, each of which would round.
template <class F>
Variable rounded_once(const Operand& x, const F& f) {
  const DType dtype = x.given().data().dtype();
  return is_half(dtype) ? to(f(to(x.given(), DType::f32)), dtype) : f(x.given());
}

}  // namespace lockstep::detail
