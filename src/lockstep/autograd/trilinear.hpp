#pragma once
#include <array>
#include <utility>

#include <lockstep/autograd/differentiation.hpp>
#include <lockstep/autograd/node.hpp>

namespace lockstep {

/// A number F(a, b, c) that is linear in each of three tensors, as <a product of a and b, its
/// gradient c> is. Its derivative by any one of them is a product of the other two, and that
/// product's derivatives are the derivatives of F by the others: three kernels serve derivatives of
/// any order. A Form has
///   void derive(int by, const std::array<Tensor, 3>& operands, bool accumulate,
///               const Tensor& to) const;   // to (+)= dF / d operands[by], itself undefined
///   const char* name() const noexcept;     // static
///   static constexpr bool mixes_layouts;   // as Node's
template <class Form>
class TrilinearNode;

/// dF / d operands[by], written to y.
template <class Form>
[[nodiscard]] Variable trilinear_derivative(const Form& form, int by,
                                            const std::array<Variable, 3>& operands, Tensor y) {
  const auto a = static_cast<std::size_t>(by == 0 ? 1 : 0);
  const auto b = static_cast<std::size_t>(by == 2 ? 1 : 2);
  std::array<Tensor, 3> values;
  values[a] = operands[a].data();
  values[b] = operands[b].data();
  form.derive(by, values, false, y);
  return record<TrilinearNode<Form>>(std::move(y), {&operands[a], &operands[b]}, form, by);
}

template <class Form>
class TrilinearNode : public PooledNode<TrilinearNode<Form>> {
 public:
  static constexpr bool mixes_layouts = Form::mixes_layouts;
  static constexpr bool reads_outputs = false;
  static constexpr bool is_bilinear = true;

  TrilinearNode(Form form, int by) : form_(std::move(form)), by_(by) {}

  void backward(const Tensor& grad_output) override {
    for (const int i : {0, 1}) {
      const auto to = this->grad_target(i);
      if (!to.wanted) continue;
      std::array<Tensor, 3> operands;
      operands[place(by_)] = grad_output;
      operands[place(operand_of(1 - i))] = this->input(1 - i).data();
      form_.derive(operand_of(i), operands, to.accumulate, to.tensor);
    }
  }
  void differentiate(Differentiation& d) override {
    for (const int i : {0, 1}) {
      if (!d.wants(i)) continue;
      std::array<Variable, 3> operands;
      operands[place(by_)] = d.grad_output();
      operands[place(operand_of(1 - i))] = this->input(1 - i);
      d.give(i, trilinear_derivative(form_, operand_of(i), operands,
                                     Tensor::empty_like(this->input(i).data())));
    }
  }
  [[nodiscard]] const char* name() const noexcept override { return form_.name(); }

 private:
  static std::size_t place(int operand) { return static_cast<std::size_t>(operand); }
  /// Inputs are the operands but `by_`, in order.
  [[nodiscard]] int operand_of(int input) const { return input < by_ ? input : input + 1; }

  Form form_;
  int by_;
};

}  // namespace lockstep
