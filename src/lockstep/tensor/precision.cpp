#include <lockstep/tensor/precision.hpp>

#include <dnnl.hpp>

#include <utility>

namespace lockstep {
namespace {

thread_local constinit Precision current_precision = Precision::f32;

bool multiplies_bf16() {
  switch (dnnl::get_effective_cpu_isa()) {  // what oneDNN may use: DNNL_MAX_CPU_ISA
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

bool has_units_for(Precision precision) {
  static const bool bf16 = multiplies_bf16();
  return precision == Precision::f32 || (precision == Precision::bf16 && bf16);
}

}  // namespace lockstep
