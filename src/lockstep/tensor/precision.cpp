#include <lockstep/tensor/precision.hpp>

#include <dnnl.hpp>

#include <utility>

#include <lockstep/tensor/tensor.hpp>

namespace lockstep {
namespace {

thread_local constinit Precision current_precision = Precision::f32;

bool multiplies_bf16() {
  switch (dnnl::get_effective_cpu_isa()) {  // limited by DNNL_MAX_CPU_ISA
    case dnnl::cpu_isa::avx512_core_bf16:
    case dnnl::cpu_isa::avx512_core_amx:
      return true;
    default:
      return false;
  }
}

}  // namespace

Precision product_precision() noexcept { return current_precision; }

PrecisionGuard::PrecisionGuard(Precision precision) noexcept
    : before_(std::exchange(current_precision, precision)) {}

PrecisionGuard::~PrecisionGuard() { current_precision = before_; }

Tensor product_operand(const Tensor& x) {
  if (current_precision == Precision::f32 || x.dtype() != DType::f32) return x;
  return x.to(current_precision == Precision::bf16 ? DType::bf16 : DType::f16);
}

bool has_units_for(Precision precision) {
  static const bool bf16 = multiplies_bf16();
  return precision == Precision::f32 || (precision == Precision::bf16 && bf16);
}

}  // namespace lockstep
