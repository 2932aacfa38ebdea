#include "case.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>

#include <lockstep/tensor/runtime/caching_allocator.hpp>
#include <support/test_devices.hpp>

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
  return (is_floating(t.dtype()) ? t.to(dtype_) : t).to(device_);
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

void Case::keep(const Tensor& y) {
  EXPECT_EQ(y.device(), device_) << group_;
  for (const double value : y.to(DType::f64).to_vector<double>()) {
    found_.push_back(std::bit_cast<std::uint64_t>(value));
  }
}

void Case::expect(const Tensor& y, const std::string& reference) {
  keep(y);
  const std::string path = group_ + "/" + reference;
  const Tensor expected = file_.tensor(path);
  const double bound = dtype_ == DType::f32
                           ? file_.tolerance(path)
                           : 1e-12 * std::max(1.0, file_.number(path, "ref_max_abs"));
  EXPECT_LE(max_difference(y.numel() == 1 ? y.reshape(expected.shape()) : y, expected), bound)
      << path << " in " << name_of(dtype_);
}

void Case::expect_exact(const Tensor& y, const std::string& reference) {
  keep(y);
  EXPECT_EQ(max_difference(y, file_.tensor(group_ + "/" + reference)), 0.0)
      << group_ << "/" << reference << " in " << name_of(dtype_);
}

void Case::expect_output_and_gradients(const Variable& out) {
  expect(out.data(), "out_f64");
  weighted_sum(out, tensor("grad_out")).backward();
  expect_gradients();
}

void Case::expect_gradients() {
  for (const auto& [name, variable] : inputs_) {
    ASSERT_TRUE(variable.grad().defined()) << group_ << " gives " << name << " no gradient";
    expect(variable.grad(), "grad_" + name + "_f64");
  }
}

void expect_cases_on(Device device, const GoldenFile& file, const Checks& checks) {
  int cases = 0;
  for (const auto& group : file.groups("")) {
    if (!file.has_attribute(group, "op")) continue;
    const auto check = checks.find(file.text(group, "op"));
    if (check == checks.end()) continue;
    for (const DType dtype : {DType::f32, DType::f64}) {
      SCOPED_TRACE(group + " in " + std::string(name_of(dtype)));
      Case host(file, group, dtype), there(file, group, dtype, device);
      ASSERT_NO_THROW(check->second(host));
      bool runs = false;
      ASSERT_NO_THROW(runs = runs_on(device, [&] { check->second(there); }));
      if (device.type == DeviceType::sim) {
        EXPECT_EQ(there.found(), host.found());
      }
      CachingAllocator::of(device).flush();  // what is kept makes each wait longer
      cases += runs ? 1 : 0;
    }
  }
  EXPECT_GT(cases, 20);
}

}  // namespace lockstep::test
