#include <lockstep/autograd/autocast.hpp>

#include <utility>

namespace lockstep {
namespace {

thread_local constinit bool enabled = false;

}  // namespace

Autocast::Autocast(Precision precision) noexcept
    : precision_(precision), before_(std::exchange(enabled, precision != Precision::f32)) {}

Autocast::~Autocast() { enabled = before_; }

bool autocast_enabled() noexcept { return enabled; }

DType autocast_dtype() noexcept {
  return product_precision() == Precision::bf16 ? DType::bf16 : DType::f16;
}

}  // namespace lockstep
