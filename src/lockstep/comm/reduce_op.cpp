#include <lockstep/comm/reduce_op.hpp>

namespace lockstep {

const char* name_of(ReduceOp op) noexcept {
  switch (op) {
    case ReduceOp::sum:
      return "sum";
    case ReduceOp::avg:
      return "avg";
    case ReduceOp::product:
      return "product";
    case ReduceOp::min:
      return "min";
    case ReduceOp::max:
      return "max";
    case ReduceOp::band:
      return "band";
    case ReduceOp::bor:
      return "bor";
    case ReduceOp::bxor:
      return "bxor";
  }
  return "unknown reduction";
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
