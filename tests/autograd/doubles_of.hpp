#pragma once
#include <vector>

#include <lockstep/autograd/variable.hpp>

namespace lockstep::test {

/// The elements in row-major order.
inline std::vector<double> doubles_of(const Tensor& t) {
  return t.to(DType::f64).to_vector<double>();
}
inline std::vector<double> doubles_of(const Variable& v) { return doubles_of(v.data()); }

}  // namespace lockstep::test
