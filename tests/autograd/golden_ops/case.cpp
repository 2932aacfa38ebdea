#include "case.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "../weighted_sum.hpp"

namespace lockstep::test {

Variable Case::input(const std::string& name) {
  if (!has(name)) return {};
  const Variable variable(tensor(name), true);
  inputs_.emplace_back(name, variable);
  return variable;
}

Tensor Case::tensor(const std::string& name) const {
  const Tensor t = file_.tensor(group_ + "/" + name);
  return is_floating(t.dtype()) ? t.to(dtype_) : t;
}

std::vector<std::int64_t> Case::integers(const std::string& name) const {
  std::vector<std::int64_t> result;
  for (const double value : file_.numbers(group_, name)) {
    result.push_back(static_cast<std::int64_t>(value));
  }
  return result;
}

std::array<std::int64_t, 2> Case::pair(const std::string& name) const {
  const auto values = integers(name);
  return {values.at(0), values.at(1)};
}

void Case::expect(const Tensor& y, const std::string& reference) const {
  const std::string path = group_ + "/" + reference;
  const Tensor expected = file_.tensor(path);
  const double bound = dtype_ == DType::f32
                           ? file_.tolerance(path)
                           : 1e-12 * std::max(1.0, file_.number(path, "ref_max_abs"));
  EXPECT_LE(max_difference(y.numel() == 1 ? y.reshape(expected.shape()) : y, expected), bound)
      << path << " in " << name_of(dtype_);
}

void Case::expect_exact(const Tensor& y, const std::string& reference) const {
  EXPECT_EQ(max_difference(y, file_.tensor(group_ + "/" + reference)), 0.0)
      << group_ << "/" << reference << " in " << name_of(dtype_);
}

void Case::expect_output_and_gradients(const Variable& out) const {
  expect(out.data(), "out_f64");
  weighted_sum(out, tensor("grad_out")).backward();
  expect_gradients();
}

void Case::expect_gradients() const {
  for (const auto& [name, variable] : inputs_) {
    ASSERT_TRUE(variable.grad().defined()) << group_ << " gives " << name << " no gradient";
    expect(variable.grad(), "grad_" + name + "_f64");
  }
}

}  // namespace lockstep::test
