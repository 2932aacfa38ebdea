#include <lockstep/comm/mpi/types.hpp>

#include <lockstep/comm/mpi/status.hpp>
#include <lockstep/comm/node/reduce_ranks.hpp>

namespace lockstep {
namespace {

template <ReduceOp op, DType dtype>
void reduce(void* theirs, void* result, int* count, MPI_Datatype* /*type*/) {
  const void* const sources[] = {theirs, result};
  reduce_ranks(op, dtype, sources, *count, {&result, 1});
}

/// An operation of our own, with the order and the bits of reduce_ranks.
template <ReduceOp op, DType dtype>
MPI_Op own() {
  static const MPI_Op made = [] {
    MPI_Op made = MPI_OP_NULL;
    check_mpi(MPI_Op_create(reduce<op, dtype>, 1, &made), "MPI_Op_create");
    return made;
  }();
  return made;
}

/// MPI_MIN and MPI_MAX are unreliable: those of bytes take values above 127 for negative ones in
/// MPICH 4.0, and those of floats depend on the order where there are NaNs or zeros.
template <ReduceOp op>
MPI_Op extreme(DType dtype, MPI_Op mpis) {
  switch (dtype) {
    case DType::f32:
      return own<op, DType::f32>();
    case DType::f64:
      return own<op, DType::f64>();
    case DType::u8:
      return own<op, DType::u8>();
    default:
      return mpis;
  }
}

}  // namespace

MPI_Datatype mpi_type(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return MPI_FLOAT;
    case DType::f64:
      return MPI_DOUBLE;
    case DType::i32:
      return MPI_INT32_T;
    case DType::i64:
      return MPI_INT64_T;
    case DType::u8:
      return MPI_UINT8_T;
    case DType::boolean:
      return MPI_C_BOOL;
    case DType::f16:
    case DType::bf16:
      break;
  }
  throw Error("MPI has no type for " + std::string(name_of(dtype)));
}

MPI_Op mpi_op(ReduceOp op, DType dtype) {
  const bool logical = dtype == DType::boolean;
  switch (op) {
    case ReduceOp::sum:
    case ReduceOp::avg:
      // The sum of bytes in Open MPI 4.1 saturates at 255 instead of wrapping around.
      if (dtype == DType::u8) return own<ReduceOp::sum, DType::u8>();
      return logical ? MPI_LOR : MPI_SUM;
    case ReduceOp::product:
      return logical ? MPI_LAND : MPI_PROD;
    case ReduceOp::min:
      return logical ? MPI_LAND : extreme<ReduceOp::min>(dtype, MPI_MIN);
    case ReduceOp::max:
      return logical ? MPI_LOR : extreme<ReduceOp::max>(dtype, MPI_MAX);
    case ReduceOp::band:
      return logical ? MPI_LAND : MPI_BAND;
    case ReduceOp::bor:
      return logical ? MPI_LOR : MPI_BOR;
    case ReduceOp::bxor:
      return logical ? MPI_LXOR : MPI_BXOR;
  }
  return MPI_OP_NULL;
}

MpiBytes::MpiBytes(std::int64_t bytes, std::int64_t max_count) {
  if (bytes <= max_count) {
    count_ = static_cast<int>(bytes);
    return;
  }
  const int piece = static_cast<int>(max_count), pieces = static_cast<int>(bytes / max_count);
  const int rest = static_cast<int>(bytes % max_count);
  MPI_Datatype one = MPI_DATATYPE_NULL, whole = MPI_DATATYPE_NULL;
  check_mpi(MPI_Type_contiguous(piece, MPI_BYTE, &one), "MPI_Type_contiguous");
  check_mpi(MPI_Type_contiguous(pieces, one, &whole), "MPI_Type_contiguous");
  const int lengths[] = {1, rest};
  const MPI_Aint begins[] = {0, static_cast<MPI_Aint>(bytes - rest)};
  const MPI_Datatype types[] = {whole, MPI_BYTE};
  check_mpi(MPI_Type_create_struct(2, lengths, begins, types, &type_), "MPI_Type_create_struct");
  check_mpi(MPI_Type_commit(&type_), "MPI_Type_commit");
  MPI_Type_free(&one);
  MPI_Type_free(&whole);
}

MpiBytes::~MpiBytes() {
  if (type_ != MPI_BYTE) MPI_Type_free(&type_);  // MPI keeps it while an operation uses it
}

}  // namespace lockstep
