#pragma once
#include <support/golden_file.hpp>

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <lockstep/autograd/variable.hpp>

namespace lockstep::test {

/// One case of ops.h5 in one dtype on one device: hands out inputs by name and remembers which want
/// a gradient.
class Case {
 public:
  Case(const GoldenFile& file, std::string group, DType dtype, Device device = {})
      : file_(file), group_(std::move(group)), dtype_(dtype), device_(device) {}

  /// A differentiable input; undefined where the case has none (an absent bias).
  Variable input(const std::string& name);
  /// A floating dataset in the dtype under test, or an integer one as it is.
  [[nodiscard]] Tensor tensor(const std::string& name) const;
  [[nodiscard]] double number(const std::string& name) const { return file_.number(group_, name); }
  [[nodiscard]] std::int64_t integer(const std::string& name) const {
    return static_cast<std::int64_t>(number(name));
  }
  [[nodiscard]] std::vector<std::int64_t> integers(const std::string& name) const;
  [[nodiscard]] std::array<std::int64_t, 2> pair(const std::string& name) const;
  [[nodiscard]] std::string text(const std::string& name) const { return file_.text(group_, name); }
  [[nodiscard]] bool has(const std::string& name) const { return file_.has(group_ + "/" + name); }
  /// The group, "gelu.tanh": what sets some cases apart.
  [[nodiscard]] const std::string& name() const { return group_; }
  [[nodiscard]] bool has_attribute(const std::string& name) const {
    return file_.has_attribute(group_, name);
  }
  [[nodiscard]] DType dtype() const { return dtype_; }
  [[nodiscard]] Device device() const { return device_; }
  /// The bits of all that was expected so far, as f64.
  [[nodiscard]] const std::vector<std::uint64_t>& found() const { return found_; }

  /// y agrees with a `_f64` dataset: 16 m in f32 (the golden set's rule), 1e-12 in f64.
  void expect(const Tensor& y, const std::string& reference);
  void expect_exact(const Tensor& y, const std::string& reference);
  /// `out` against out_f64, then every input's gradient for the upstream gradient grad_out.
  void expect_output_and_gradients(const Variable& out);
  /// The inputs' gradients alone, after a backward of the caller's own.
  void expect_gradients();

 private:
  void keep(const Tensor& y);

  const GoldenFile& file_;
  std::string group_;
  DType dtype_;
  Device device_;
  std::vector<std::pair<std::string, Variable>> inputs_;
  std::vector<std::uint64_t> found_;
};

/// How to check a case of each operation (the group's attribute `op`), by subject.
using Checks = std::map<std::string, void (*)(Case&)>;

/// Every case that there is a check of passes it on a device, too, on a simulated one with the
/// host's bits.
void expect_cases_on(Device device, const GoldenFile& file, const Checks& checks);

[[nodiscard]] Checks activation_checks();
[[nodiscard]] Checks arithmetic_checks();
[[nodiscard]] Checks attention_checks();
[[nodiscard]] Checks batch_norm_checks();
[[nodiscard]] Checks conv_checks();
[[nodiscard]] Checks embedding_checks();
[[nodiscard]] Checks linear_checks();
[[nodiscard]] Checks loss_checks();
[[nodiscard]] Checks matmul_checks();
[[nodiscard]] Checks norm_checks();
[[nodiscard]] Checks reduction_checks();
[[nodiscard]] Checks regression_loss_checks();
[[nodiscard]] Checks shape_checks();

}  // namespace lockstep::test
