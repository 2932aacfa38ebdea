// Every case of ops.h5 whose operation is built, forward and backward, in f32 and f64. Shapes,
// attributes and inputs come from the file; what is not built yet is listed and counted.
#include <support/golden_file.hpp>

#include <algorithm>
#include <cstdio>
#include <map>

#include <lockstep/autograd/functional.hpp>

#include "weighted_sum.hpp"

namespace lockstep::test {
namespace {

/// One case in one dtype: hands out inputs by name and remembers which want a gradient.
class Case {
 public:
  Case(const GoldenFile& file, std::string group, DType dtype)
      : file_(file), group_(std::move(group)), dtype_(dtype) {}

  /// A differentiable input; undefined where the case has none (an absent bias).
  Variable input(const std::string& name) {
    if (!file_.has(group_ + "/" + name)) return {};
    const Variable variable(tensor(name), true);
    inputs_.emplace_back(name, variable);
    return variable;
  }
  /// A floating dataset in the dtype under test, or an integer one as it is.
  [[nodiscard]] Tensor tensor(const std::string& name) const {
    const Tensor t = file_.tensor(group_ + "/" + name);
    return is_floating(t.dtype()) ? t.to(dtype_) : t;
  }
  [[nodiscard]] double number(const std::string& name) const { return file_.number(group_, name); }
  [[nodiscard]] std::int64_t integer(const std::string& name) const {
    return static_cast<std::int64_t>(number(name));
  }
  [[nodiscard]] std::array<std::int64_t, 2> pair(const std::string& name) const {
    const auto values = file_.numbers(group_, name);
    return {static_cast<std::int64_t>(values.at(0)), static_cast<std::int64_t>(values.at(1))};
  }
  [[nodiscard]] std::string text(const std::string& name) const { return file_.text(group_, name); }
  [[nodiscard]] bool has(const std::string& name) const { return file_.has(group_ + "/" + name); }
  [[nodiscard]] DType dtype() const { return dtype_; }

  void expect(const Tensor& y, const std::string& reference) const {
    const std::string path = group_ + "/" + reference;
    const Tensor expected = file_.tensor(path);
    const double bound = dtype_ == DType::f32
                             ? file_.tolerance(path)
                             : 1e-12 * std::max(1.0, file_.number(path, "ref_max_abs"));
    EXPECT_LE(max_difference(y.numel() == 1 ? y.reshape(expected.shape()) : y, expected), bound)
        << path << " in " << name_of(dtype_);
  }
  void expect_exact(const Tensor& y, const std::string& reference) const {
    EXPECT_EQ(max_difference(y, file_.tensor(group_ + "/" + reference)), 0.0)
        << group_ << "/" << reference << " in " << name_of(dtype_);
  }
  void expect_output_and_gradients(const Variable& out) const {
    expect(out.data(), "out_f64");
    weighted_sum(out, tensor("grad_out")).backward();
    for (const auto& [name, variable] : inputs_) {
      ASSERT_TRUE(variable.grad().defined()) << group_ << " gives " << name << " no gradient";
      expect(variable.grad(), "grad_" + name + "_f64");
    }
  }

 private:
  const GoldenFile& file_;
  std::string group_;
  DType dtype_;
  std::vector<std::pair<std::string, Variable>> inputs_;
};

LossOptions loss_options(const Case& c) {
  LossOptions options;
  const std::string reduction = c.text("reduction");
  options.reduction = reduction == "none"  ? Reduction::none
                      : reduction == "sum" ? Reduction::sum
                                           : Reduction::mean;
  options.ignore_index = c.integer("ignore_index");
  if (c.number("has_weight") != 0) options.class_weight = c.tensor("class_weight");
  return options;
}

void conv2d_case(Case& c) {
  const Conv2dOptions options{c.pair("stride"), c.pair("padding"), c.pair("dilation"),
                              c.integer("groups")};
  const Variable x = c.input("x"), weight = c.input("weight"), bias = c.input("bias");
  ASSERT_EQ(bias.defined(), c.number("has_bias") != 0);
  c.expect_output_and_gradients(conv2d(x, weight, bias, options));
}

void max_pool2d_case(Case& c) {
  const Pool2dOptions options{c.integer("kernel"), c.integer("stride"), c.integer("padding")};
  const Variable x = c.input("x"), y = max_pool2d(x, options);
  c.expect_output_and_gradients(y);
  c.expect_exact(y.data(), "out_f64");
  const Tensor indices = Tensor::empty(y.shape(), DType::i32);
  max_pool2d_forward(x.data(), options, Tensor::empty(y.shape(), c.dtype()), indices);
  c.expect_exact(indices, "indices");
}

void linear_case(Case& c) {
  const Variable x = c.input("x"), weight = c.input("weight"), bias = c.input("bias");
  ASSERT_EQ(bias.defined(), c.number("has_bias") != 0);
  c.expect_output_and_gradients(linear(x, weight, bias));
}

void relu_case(Case& c) { c.expect_output_and_gradients(relu(c.input("x"))); }

void log_softmax_case(Case& c) {
  const int dim = static_cast<int>(c.integer("dim"));
  c.expect_output_and_gradients(log_softmax(c.input("x"), dim));
}

void nll_loss_case(Case& c) {
  c.expect_output_and_gradients(nll_loss(c.input("x"), c.tensor("target"), loss_options(c)));
}

void cross_entropy_case(Case& c) {
  LossOptions options = loss_options(c);
  options.label_smoothing = c.number("label_smoothing");
  c.expect_output_and_gradients(cross_entropy(c.input("x"), c.tensor("target"), options));
}

// The mask is the file's: what is tested is the multiplication that dropout applies.
void dropout_case(Case& c) {
  const Tensor scale = c.tensor("mask").clone();
  const double p = c.number("p");
  std::vector<double> values = scale.to(DType::f64).to_vector<double>();
  for (double& value : values) value /= 1 - p;
  const Tensor x = c.tensor("x");
  const Tensor factor = Tensor::from(values, x.shape()).to(c.dtype());
  const Tensor y = Tensor::empty(x.shape(), c.dtype()),
               grad_x = Tensor::zeros(x.shape(), c.dtype());
  apply_scale(x, factor, false, y);
  c.expect(y, "out_f64");
  apply_scale(c.tensor("grad_out"), factor, true, grad_x);
  c.expect(grad_x, "grad_x_f64");
}

const std::map<std::string, void (*)(Case&)> built{
    {"conv2d", conv2d_case},           {"cross_entropy", cross_entropy_case},
    {"dropout", dropout_case},         {"linear", linear_case},
    {"log_softmax", log_softmax_case}, {"max_pool2d", max_pool2d_case},
    {"nll_loss", nll_loss_case},       {"relu", relu_case},
};

TEST(GoldenOps, EveryCaseOfEveryBuiltOperationAgrees) {
  const GoldenFile file("ops.h5");
  std::map<std::string, int> cases, missing;
  for (const auto& group : file.groups("")) {
    const std::string op = file.text(group, "op");
    ++(built.contains(op) ? cases : missing)[op];
  }

  int checked = 0;
  for (const auto& group : file.groups("")) {
    const auto run = built.find(file.text(group, "op"));
    if (run == built.end()) continue;
    for (const DType dtype : {DType::f32, DType::f64}) {
      SCOPED_TRACE(group + " in " + std::string(name_of(dtype)));
      Case c(file, group, dtype);
      ASSERT_NO_THROW(run->second(c));
    }
    ++checked;
  }

  int expected = 0;
  for (const auto& [op, run] : built) {
    EXPECT_GT(cases[op], 0) << "ops.h5 has no case of " << op;
    expected += cases[op];
  }
  EXPECT_EQ(checked, expected);
  EXPECT_GT(checked, 0);

  int not_checked = 0;
  std::string list;
  for (const auto& [op, count] : missing) {
    not_checked += count;
    list += (list.empty() ? "" : ", ") + op + " (" + std::to_string(count) +
            (count == 1 ? " case)" : " cases)");
  }
  std::printf("checked %d cases of %zu operations\n", checked, built.size());
  std::printf("not built yet: %d cases: %s\n", not_checked, list.empty() ? "none" : list.c_str());
}

}  // namespace
}  // namespace lockstep::test
