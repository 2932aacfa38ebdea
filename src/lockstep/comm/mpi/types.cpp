#include <lockstep/comm/mpi/types.hpp>

#include <algorithm>

#include <lockstep/comm/mpi/status.hpp>

namespace lockstep {
namespace {

template <class Combine>
void combine_bytes(void* theirs, void* result, int* count, MPI_Datatype* /*type*/) {
  const auto* in = static_cast<const std::uint8_t*>(theirs);
  auto* out = static_cast<std::uint8_t*>(result);
  for (int i = 0; i < *count; ++i) out[i] = Combine()(in[i], out[i]);
}

struct SumOfBytes {
  std::uint8_t operator()(std::uint8_t a, std::uint8_t b) const {
    return static_cast<std::uint8_t>(a + b);
  }
};
struct MinOfBytes {
  std::uint8_t operator()(std::uint8_t a, std::uint8_t b) const { return std::min(a, b); }
};
struct MaxOfBytes {
  std::uint8_t operator()(std::uint8_t a, std::uint8_t b) const { return std::max(a, b); }
};

/// MPI's own for bytes are not to be trusted: MPICH 4.0's MPI_MIN and MPI_MAX take those above 127
/// for negative numbers, Open MPI 4.1's MPI_SUM stays at 255 where it should wrap around.
template <class Combine>
MPI_Op of_bytes() {
  static const MPI_Op op = [] {
    MPI_Op made = MPI_OP_NULL;
    check_mpi(MPI_Op_create(combine_bytes<Combine>, 1, &made), "MPI_Op_create");
    return made;
  }();
  return op;
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
  const bool logical = dtype == DType::boolean, bytes = dtype == DType::u8;
  switch (op) {
    case ReduceOp::sum:
    case ReduceOp::avg:
      return logical ? MPI_LOR : bytes ? of_bytes<SumOfBytes>() : MPI_SUM;
    case ReduceOp::product:
      return logical ? MPI_LAND : MPI_PROD;
    case ReduceOp::min:
      return logical ? MPI_LAND : bytes ? of_bytes<MinOfBytes>() : MPI_MIN;
    case ReduceOp::max:
      return logical ? MPI_LOR : bytes ? of_bytes<MaxOfBytes>() : MPI_MAX;
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
  if (type_ != MPI_BYTE) MPI_Type_free(&type_);  // MPI keeps it while an operation needs it
}

}  // namespace lockstep
