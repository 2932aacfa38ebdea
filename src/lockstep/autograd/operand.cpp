#include <lockstep/autograd/operand.hpp>

#include <lockstep/autograd/functional/arithmetic.hpp>
#include <lockstep/tensor/sum_dtype.hpp>

namespace lockstep {

void Operand::widen() {
  given_ = *this;
  static_cast<Variable&>(*this) = to(given_, DType::f32);
  if (!autocast_enabled()) record()->rounds_results_to = given_.data().dtype();
}

// Other operations may use the copy in the graph; for them it is an ordinary tensor.
void Operand::end_widening() const noexcept { record()->rounds_results_to = DType::f32; }

bool is_native(const Variable& x) {
  return !is_half(x.data().dtype()) || !x.requires_grad() || !x.is_leaf();
}

DType loss_dtype(const Variable& x) noexcept {
  const DType dtype = x.data().dtype();
  return autocast_enabled() ? sum_dtype(dtype) : dtype;
}

Variable autocast_operand(const Variable& x) {
  return autocast_enabled() && x.data().dtype() == DType::f32 ? to(x, autocast_dtype()) : x;
}

Precision precision_of_product(const Operand& a, const Operand& b) noexcept {
  const auto type = [](const Operand& x) { return x.record()->rounds_results_to; };
  if (!a.defined() || !b.defined() || type(a) != type(b) || type(a) == DType::f32) {
    return product_precision();
  }
  return type(a) == DType::bf16 ? Precision::bf16 : Precision::fp16;
}

}  // namespace lockstep
