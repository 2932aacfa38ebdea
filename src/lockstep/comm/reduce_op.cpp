#include <lockstep/comm/reduce_op.hpp>

#include <array>
#include <cstddef>

namespace lockstep {

const char* name_of(ReduceOp op) noexcept {
  constexpr std::array names{"sum", "avg", "product", "min", "max", "band", "bor", "bxor"};
  const auto index = static_cast<std::size_t>(op);
  return index < names.size() ? names[index] : "unknown reduction";
}

bool reducible(ReduceOp op, DType dtype) noexcept {
  switch (op) {
    case ReduceOp::avg:
      return is_floating(dtype);
    case ReduceOp::band:
    case ReduceOp::bor:
    case ReduceOp::bxor:
      return !is_floating(dtype);
    default:
      return true;
  }
}

}  // namespace lockstep
