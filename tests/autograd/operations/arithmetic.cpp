#include <lockstep/autograd/functional/arithmetic.hpp>

#include "operations.hpp"

#include <lockstep/autograd/functional/where.hpp>

namespace lockstep::test {
namespace {

/// Every third of 64 positions, fixed, so that a steady loop makes them once.
Tensor every_third(const Variable& x) {
  static const Tensor mask = [] {
    std::vector<double> values(64);
    for (std::size_t i = 0; i < values.size(); i += 3) values[i] = 1;
    return Tensor::from(values, {64}).to(DType::boolean);
  }();
  return mask.to(x.data().device());
}

}  // namespace

Operations arithmetic_operations() {
  return {{"add_same", {{64, 1440}, {64, 1440}}, [](const Inputs& v) { return v[0] + v[1]; }},
          {"add_row", {{64, 768}, {768}}, [](const Inputs& v) { return v[0] + v[1]; }},
          {"sub_channel", {{8, 20, 8, 8}, {20, 1, 1}}, [](const Inputs& v) { return v[0] - v[1]; }},
          {"mul_column", {{64, 51}, {64, 1}}, [](const Inputs& v) { return v[0] * v[1]; }},
          {"mul_both", {{16, 1, 33}, {20, 1}}, [](const Inputs& v) { return v[0] * v[1]; }},
          {"div_row", {{64, 51}, {51}}, [](const Inputs& v) { return v[0] / (v[1] + 2.0); }},
          {"numbers", {{64, 51}}, [](const Inputs& v) { return v[0] * 3.0 + 1.0; }},
          {"div_number", {{64, 51}}, [](const Inputs& v) { return v[0] / 3.0; }},
          {"number_div", {{64, 51}}, [](const Inputs& v) { return 3.0 / (v[0] + 2.0); }},
          {"atan2",
           {{64, 51}, {51}},
           [](const Inputs& v) { return lockstep::atan2(v[0], v[1] + 2.0); }},
          {"erfc", {{64, 51}}, [](const Inputs& v) { return erfc(v[0]); }},
          {"exp", {{64, 51}}, [](const Inputs& v) { return exp(v[0]); }},
          {"log_sqrt", {{64, 51}}, [](const Inputs& v) { return log(sqrt(v[0] + 2.0)); }},
          {"pow", {{64, 51}}, [](const Inputs& v) { return pow(v[0] + 2.0, 1.7); }},
          {"sin_cos", {{64, 51}}, [](const Inputs& v) { return sin(v[0]) + cos(v[0]); }},
          {"clamp", {{64, 51}}, [](const Inputs& v) { return clamp(v[0], -0.5, 0.5); }},
          {"where",
           {{16, 64}, {64}},
           [](const Inputs& v) { return where(every_third(v[0]), v[0], v[1]); }},
          {"masked_fill",
           {{16, 64}},
           [](const Inputs& v) { return masked_fill(v[0], every_third(v[0]), -1e4); }},
          {"to", {{64, 51}}, [](const Inputs& v) {
             const DType dtype = v[0].data().dtype();
             return to(to(v[0], dtype == DType::f32 ? DType::f64 : DType::f32), dtype);
           }}};
}

}  // namespace lockstep::test
