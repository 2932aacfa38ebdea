// What Lockstep tells cuBLASLt, without a GPU: the library's own descriptors, and functions of this
// file in place of those that need one. They read the descriptors back and compute what these say.
#include <cublasLt.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <vector>

#include <gtest/gtest.h>
#include <lockstep/base/error.hpp>
#include <lockstep/tensor/half.hpp>
#include <lockstep/tensor/math/cublas_product.hpp>
#include <lockstep/tensor/runtime/device_runtime.hpp>
#include <lockstep/tensor/tensor.hpp>
#include <support/message_of.hpp>

namespace {

/// What is asked of the libraries, and how they answer.
struct Asked {
  std::uint64_t workspace_limit = 0;
  std::array<std::uint32_t, 4> alignments{};  // of A, B, C, D
  cublasComputeType_t compute_type{};
  std::uint32_t reduction_schemes = 0;
  bool has_algorithm = true, fails = false;
  cublasStatus_t heuristics = CUBLAS_STATUS_SUCCESS, check = CUBLAS_STATUS_SUCCESS;
};
Asked asked;

int tag;  // what handles point to

template <class Value>
Value of(cublasLtMatmulDesc_t operation, cublasLtMatmulDescAttributes_t attribute) {
  Value value{};
  std::size_t written = 0;
  EXPECT_EQ(cublasLtMatmulDescGetAttribute(operation, attribute, &value, sizeof value, &written),
            CUBLAS_STATUS_SUCCESS);
  return value;
}

template <class Value>
Value of(cublasLtMatrixLayout_t layout, cublasLtMatrixLayoutAttribute_t attribute) {
  Value value{};
  std::size_t written = 0;
  EXPECT_EQ(cublasLtMatrixLayoutGetAttribute(layout, attribute, &value, sizeof value, &written),
            CUBLAS_STATUS_SUCCESS);
  return value;
}

double number(cudaDataType type, const void* data, std::int64_t i) {
  switch (type) {
    case CUDA_R_64F:
      return static_cast<const double*>(data)[i];
    case CUDA_R_16BF:
      return static_cast<float>(static_cast<const lockstep::BFloat16*>(data)[i]);
    case CUDA_R_16F:
      return static_cast<float>(static_cast<const lockstep::Float16*>(data)[i]);
    default:
      return static_cast<const float*>(data)[i];
  }
}

void store(cudaDataType type, void* data, std::int64_t i, double value) {
  if (type == CUDA_R_64F) {
    static_cast<double*>(data)[i] = value;
  } else if (type == CUDA_R_16BF) {
    static_cast<lockstep::BFloat16*>(data)[i] = lockstep::BFloat16(static_cast<float>(value));
  } else if (type == CUDA_R_16F) {
    static_cast<lockstep::Float16*>(data)[i] = lockstep::Float16(static_cast<float>(value));
  } else {
    ASSERT_EQ(type, CUDA_R_32F);
    static_cast<float*>(data)[i] = static_cast<float>(value);
  }
}

/// By tanh, as cuBLASLt's documentation has it.
double gelu(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
}
/// To some digits, which the test needs.
double gelu_slope(double x) { return (gelu(x + 1e-6) - gelu(x - 1e-6)) / 2e-6; }

/// A matrix as its layout describes it.
struct Stored {
  cudaDataType type;
  std::uint64_t rows, columns;
  std::int64_t stride, batch;
  std::int32_t count;

  explicit Stored(cublasLtMatrixLayout_t layout)
      : type(static_cast<cudaDataType>(of<std::uint32_t>(layout, CUBLASLT_MATRIX_LAYOUT_TYPE))),
        rows(of<std::uint64_t>(layout, CUBLASLT_MATRIX_LAYOUT_ROWS)),
        columns(of<std::uint64_t>(layout, CUBLASLT_MATRIX_LAYOUT_COLS)),
        stride(of<std::int64_t>(layout, CUBLASLT_MATRIX_LAYOUT_LD)),
        batch(of<std::int64_t>(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET)),
        count(of<std::int32_t>(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT)) {
    EXPECT_EQ(of<std::int32_t>(layout, CUBLASLT_MATRIX_LAYOUT_ORDER), CUBLASLT_ORDER_COL);
    EXPECT_GE(stride, static_cast<std::int64_t>(rows));
  }
  [[nodiscard]] std::int64_t at(std::int64_t i, std::int64_t row, std::int64_t column) const {
    EXPECT_LT(row, static_cast<std::int64_t>(rows));
    EXPECT_LT(column, static_cast<std::int64_t>(columns));
    return i * batch + row + column * stride;
  }
};

}  // namespace

extern "C" {

cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  *handle = reinterpret_cast<cublasLtHandle_t>(&tag);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(
    cublasLtHandle_t /*handle*/, cublasLtMatmulDesc_t operation, cublasLtMatrixLayout_t /*a*/,
    cublasLtMatrixLayout_t /*b*/, cublasLtMatrixLayout_t /*c*/, cublasLtMatrixLayout_t /*d*/,
    cublasLtMatmulPreference_t preference, int /*requested*/,
    cublasLtMatmulHeuristicResult_t* results, int* count) {
  const auto read = [&](cublasLtMatmulPreferenceAttributes_t attribute, auto& value) {
    std::size_t written = 0;
    EXPECT_EQ(
        cublasLtMatmulPreferenceGetAttribute(preference, attribute, &value, sizeof value, &written),
        CUBLAS_STATUS_SUCCESS);
  };
  read(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, asked.workspace_limit);
  read(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, asked.alignments[0]);
  read(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, asked.alignments[1]);
  read(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, asked.alignments[2]);
  read(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, asked.alignments[3]);
  read(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, asked.reduction_schemes);
  asked.compute_type = static_cast<cublasComputeType_t>(
      of<std::int32_t>(operation, CUBLASLT_MATMUL_DESC_COMPUTE_TYPE));
  *count = asked.has_algorithm ? 1 : 0;
  results[0] = {};
  results[0].workspaceSize = 4096;
  return asked.heuristics;
}

cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t /*handle*/,
                                       cublasLtMatmulDesc_t /*operation*/,
                                       cublasLtMatrixLayout_t /*a*/, cublasLtMatrixLayout_t /*b*/,
                                       cublasLtMatrixLayout_t /*c*/, cublasLtMatrixLayout_t /*d*/,
                                       const cublasLtMatmulAlgo_t* /*algorithm*/,
                                       cublasLtMatmulHeuristicResult_t* /*result*/) {
  return asked.check;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t /*handle*/, cublasLtMatmulDesc_t operation,
                              const void* alpha, const void* a, cublasLtMatrixLayout_t of_a,
                              const void* b, cublasLtMatrixLayout_t of_b, const void* beta,
                              const void* c, cublasLtMatrixLayout_t /*of_c*/, void* d,
                              cublasLtMatrixLayout_t of_d, const cublasLtMatmulAlgo_t* /*algo*/,
                              void* /*workspace*/, std::size_t bytes, cudaStream_t /*stream*/) {
  if (asked.fails) return CUBLAS_STATUS_EXECUTION_FAILED;
  EXPECT_EQ(bytes, 4096U);
  EXPECT_EQ(c, d);
  const Stored left(of_a), right(of_b), result(of_d);
  const auto factors =
      static_cast<cudaDataType>(of<std::int32_t>(operation, CUBLASLT_MATMUL_DESC_SCALE_TYPE));
  EXPECT_EQ(factors, result.type == CUDA_R_64F ? CUDA_R_64F : CUDA_R_32F);
  const bool a_transposed = of<std::int32_t>(operation, CUBLASLT_MATMUL_DESC_TRANSA) == CUBLAS_OP_T;
  const bool b_transposed = of<std::int32_t>(operation, CUBLASLT_MATMUL_DESC_TRANSB) == CUBLAS_OP_T;
  const auto terms = static_cast<std::int64_t>(a_transposed ? left.rows : left.columns);
  EXPECT_EQ(terms, static_cast<std::int64_t>(b_transposed ? right.columns : right.rows));
  const auto epilogue = of<std::uint32_t>(operation, CUBLASLT_MATMUL_DESC_EPILOGUE);
  void* const vector = of<void*>(operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER);
  if (epilogue != CUBLASLT_EPILOGUE_DEFAULT && epilogue != CUBLASLT_EPILOGUE_DGELU) {
    EXPECT_EQ(of<std::int32_t>(operation, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE),
              static_cast<std::int32_t>(result.type));
  }
  void* const second = of<void*>(operation, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER);
  const auto second_stride = of<std::int64_t>(operation, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD);
  const auto right_number = [&](std::int32_t i, std::int64_t t, std::int64_t column) {
    return number(right.type, b, b_transposed ? right.at(i, column, t) : right.at(i, t, column));
  };
  for (std::int32_t i = 0; i < result.count; ++i) {
    for (std::int64_t column = 0; column < static_cast<std::int64_t>(result.columns); ++column) {
      if (epilogue == CUBLASLT_EPILOGUE_BGRADB) {
        double sum = 0;
        for (std::int64_t t = 0; t < terms; ++t) sum += right_number(i, t, column);
        store(result.type, vector, column, sum);
      }
      for (std::int64_t row = 0; row < static_cast<std::int64_t>(result.rows); ++row) {
        double sum = 0;
        for (std::int64_t t = 0; t < terms; ++t) {
          sum += number(left.type, a, a_transposed ? left.at(i, t, row) : left.at(i, row, t)) *
                 right_number(i, t, column);
        }
        const std::int64_t to = result.at(i, row, column);
        sum *= number(factors, alpha, 0);
        if (number(factors, beta, 0) != 0)
          sum += number(factors, beta, 0) * number(result.type, d, to);
        if (epilogue == CUBLASLT_EPILOGUE_BIAS || epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS) {
          sum += number(result.type, vector, row);
        }
        const std::int64_t in_second = row + column * second_stride;
        if (epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS) {
          store(result.type, second, in_second, sum);
          sum = gelu(sum);
        } else if (epilogue == CUBLASLT_EPILOGUE_DGELU) {
          sum *= gelu_slope(number(result.type, second, in_second));
        }
        store(result.type, d, to, sum);
      }
    }
  }
  return CUBLAS_STATUS_SUCCESS;
}

}  // extern "C"

namespace lockstep {
namespace {

using math::ColumnMajorProduct;
using math::Epilogue;

constexpr Device gpu{DeviceType::cuda, 0};

std::vector<double> eighths(std::size_t count, std::size_t seed) {
  std::vector<double> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = (static_cast<double>((i * 7 + seed * 5) % 17) - 8) / 8;
  }
  return values;
}

DType sums_of(DType operands) { return operands == DType::f64 ? DType::f64 : DType::f32; }

struct ProductCase {
  std::int64_t rows, columns, terms, count = 1;
  bool left_transposed = false, right_transposed = false, accumulate = false;
  Epilogue epilogue = Epilogue::none;
  bool narrow = false;  ///< the result is of the operands' 16 bits
};

/// Dense matrices, those of a stack 3 elements apart.
ColumnMajorProduct product_of(const ProductCase& c, DType dtype) {
  const auto matrix = [](std::int64_t rows, std::int64_t columns, bool transposed) {
    return ColumnMajorProduct::Matrix{transposed, transposed ? columns : rows, rows * columns + 3,
                                      4};
  };
  return {.operands = dtype,
          .sums = sums_of(dtype),
          .results = c.narrow ? dtype : sums_of(dtype),
          .rows = c.rows,
          .columns = c.columns,
          .terms = c.terms,
          .count = c.count,
          .left = matrix(c.rows, c.terms, c.left_transposed),
          .right = matrix(c.terms, c.columns, c.right_transposed),
          .result = matrix(c.rows, c.columns, false),
          .accumulate = c.accumulate,
          .epilogue = c.epilogue,
          .vector_alignment = c.epilogue == Epilogue::none ? 0 : 16};
}

void expect_product(const ProductCase& c, DType dtype) {
  const ColumnMajorProduct p = product_of(c, dtype);
  const auto all = [&](const ColumnMajorProduct::Matrix& m, std::size_t seed) {
    return eighths(static_cast<std::size_t>(m.batch * c.count), seed);
  };
  const auto left = all(p.left, 1), right = all(p.right, 2);
  const bool adds_bias = c.epilogue == Epilogue::add_bias;
  auto vector = eighths(static_cast<std::size_t>(adds_bias ? c.rows : c.columns), 4);
  auto expected = all(p.result, 3);
  const auto make = [](const std::vector<double>& values, DType of) {
    return Tensor::from(values).to(of);
  };
  const Tensor a = make(left, dtype), b = make(right, dtype), beside = make(vector, p.results),
               result = make(expected, p.results);
  math::cublas_plan("test", p, gpu)
      ->run("test", {a.data(), b.data(), result.data(), beside.data()}, nullptr, Stream(gpu));
  const auto at = [](const ColumnMajorProduct::Matrix& m, std::int64_t i, std::int64_t row,
                     std::int64_t column) {
    return static_cast<std::size_t>(
        i * m.batch + (m.transposed ? column + row * m.stride : row + column * m.stride));
  };
  for (std::int64_t i = 0; i < c.count; ++i) {
    for (std::int64_t row = 0; row < c.rows; ++row) {
      for (std::int64_t column = 0; column < c.columns; ++column) {
        double& sum = expected[at(p.result, i, row, column)];
        sum = (c.accumulate ? sum : 0) + (adds_bias ? vector[static_cast<std::size_t>(row)] : 0);
        for (std::int64_t t = 0; t < c.terms; ++t) {
          sum += left[at(p.left, i, row, t)] * right[at(p.right, i, t, column)];
        }
      }
    }
  }
  for (std::int64_t column = 0; c.epilogue == Epilogue::sum_right && column < c.columns; ++column) {
    double& sum = vector[static_cast<std::size_t>(column)];
    sum = 0;
    for (std::int64_t t = 0; t < c.terms; ++t) sum += right[at(p.right, 0, t, column)];
  }
  const auto numbers = [](const Tensor& t) { return t.to(DType::f64).to_vector<double>(); };
  EXPECT_EQ(numbers(result), numbers(make(expected, p.results)));
  EXPECT_EQ(numbers(beside), numbers(make(vector, p.results)));
}

TEST(CublasProduct, ReceivesTheDescriptionOfTheProduct) {
  asked = {};
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16, DType::f16}) {
    for (const bool left : {false, true}) {
      for (const bool right : {false, true}) {
        for (const bool accumulate : {false, true}) {
          SCOPED_TRACE(testing::Message() << name_of(dtype) << left << right << accumulate);
          expect_product({5, 4, 7, 1, left, right, accumulate}, dtype);
          expect_product({5, 4, 7, 3, left, right, accumulate}, dtype);
          constexpr auto none = Epilogue::none, bias = Epilogue::add_bias,
                         sums = Epilogue::sum_right;
          if (dtype != DType::f64) {
            expect_product({5, 4, 7, 1, left, right, false, bias}, dtype);
            expect_product({5, 4, 7, 1, left, right, accumulate, sums}, dtype);
          }
          if (!is_half(dtype)) continue;
          expect_product({5, 4, 7, 3, left, right, accumulate, none, true}, dtype);
          expect_product({5, 4, 7, 1, left, right, false, bias, true}, dtype);
          expect_product({5, 4, 7, 1, left, right, accumulate, sums, true}, dtype);
        }
      }
    }
  }
}

TEST(CublasProduct, ReceivesTheMatrixOfAnEpilogueOfGelu) {
  asked = {};
  constexpr std::int64_t rows = 8, columns = 3, terms = 5, stride = 16;
  const auto numbers = [](const Tensor& t) { return t.to(DType::f64).to_vector<double>(); };
  for (const DType dtype : {DType::bf16, DType::f16}) {
    const auto make = [&](std::size_t count, std::size_t seed) {
      return Tensor::from(eighths(count, seed)).to(dtype);
    };
    for (const Epilogue epilogue : {Epilogue::add_bias_gelu, Epilogue::gelu_slope}) {
      ColumnMajorProduct p =
          product_of({rows, columns, terms, 1, false, true, false, epilogue, true}, dtype);
      p.second = {false, stride, 0, 16};
      const Tensor a = make(rows * terms, 1), b = make(terms * columns, 2), bias = make(rows, 3),
                   second = make(stride * columns, 4), result = make(rows * columns, 5);
      const auto left = numbers(a), right = numbers(b), added = numbers(bias);
      const auto old = numbers(second);
      math::cublas_plan("test", p, gpu)
          ->run("test", {a.data(), b.data(), result.data(), bias.data(), second.data()}, nullptr,
                Stream(gpu));
      const auto found = numbers(result), beside = numbers(second);
      for (std::int64_t column = 0; column < columns; ++column) {
        for (std::int64_t row = 0; row < rows; ++row) {
          double sum = 0;
          for (std::int64_t t = 0; t < terms; ++t) {
            sum += left[static_cast<std::size_t>(row + t * rows)] *
                   right[static_cast<std::size_t>(column + t * columns)];
          }
          const auto at = static_cast<std::size_t>(row + column * stride);
          if (epilogue == Epilogue::add_bias_gelu) {
            sum += added[static_cast<std::size_t>(row)];
            EXPECT_NEAR(beside[at], sum, 1e-2 * std::abs(sum));
            sum = gelu(sum);
          } else {
            EXPECT_EQ(beside[at], old[at]);
            sum *= gelu_slope(old[at]);
          }
          EXPECT_NEAR(found[static_cast<std::size_t>(row + column * rows)], sum,
                      1e-2 * std::abs(sum) + 1e-4);
        }
      }
    }
  }
}

TEST(CublasProduct, IsRequestedWithTf32WhereAllowedAndWithTheActualAlignments) {
  asked = {};
  ColumnMajorProduct p = product_of({4, 4, 4}, DType::f32);
  p.left.alignment = 256;
  p.right.alignment = 16;
  p.result.alignment = 64;
  EXPECT_EQ(math::cublas_plan("test", p, gpu)->workspace_bytes(), 4096U);
  EXPECT_EQ(asked.compute_type, CUBLAS_COMPUTE_32F);
  EXPECT_EQ(asked.workspace_limit, std::uint64_t{32} << 20U);
  EXPECT_EQ(asked.alignments, (std::array<std::uint32_t, 4>{256, 16, 64, 64}));
  p.epilogue = Epilogue::add_bias;
  p.vector_alignment = 4;
  static_cast<void>(math::cublas_plan("test", p, gpu));
  EXPECT_EQ(asked.alignments, (std::array<std::uint32_t, 4>{256, 16, 64, 4}));
  p.epilogue = Epilogue::gelu_slope;
  p.second = {false, 4, 0, 8};
  static_cast<void>(math::cublas_plan("test", p, gpu));
  EXPECT_EQ(asked.alignments, (std::array<std::uint32_t, 4>{256, 16, 64, 8}));
  static_cast<void>(math::cublas_plan("test", product_of({4, 4, 4}, DType::bf16), gpu));
  EXPECT_EQ(asked.compute_type, CUBLAS_COMPUTE_32F);
  static_cast<void>(math::cublas_plan("test", product_of({4, 4, 4}, DType::f64), gpu));
  EXPECT_EQ(asked.compute_type, CUBLAS_COMPUTE_64F);
  ColumnMajorProduct in_tf32 = product_of({4, 4, 4}, DType::f32);
  in_tf32.tf32 = true;
  static_cast<void>(math::cublas_plan("test", in_tf32, gpu));
  EXPECT_EQ(asked.compute_type, CUBLAS_COMPUTE_32F_FAST_TF32);
}

TEST(CublasProduct, AddsPartsOfASumInF32) {
  for (const bool narrow : {false, true}) {
    asked = {};
    const ProductCase c{4, 4, 4, 1, false, false, false, Epilogue::none, narrow};
    static_cast<void>(math::cublas_plan("test", product_of(c, DType::bf16), gpu));
    const bool adds_in_results =
        (asked.reduction_schemes & CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE) != 0 ||
        (asked.reduction_schemes & CUBLASLT_REDUCTION_SCHEME_INPLACE) != 0;
    EXPECT_EQ(adds_in_results, !narrow);
    EXPECT_NE(asked.reduction_schemes & CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE, 0U);
  }
}

TEST(CublasProduct, NamesTheProblemItCannotCompute) {
  const ColumnMajorProduct p = product_of({6, 4, 5}, DType::bf16);
  asked = {.has_algorithm = false};
  EXPECT_EQ(test::message_of<Error>([&] { static_cast<void>(math::cublas_plan("linear", p, gpu)); })
                .find("linear: c[4, 6] = a[4, 5] b[5, 6] of bf16, sums in f32 on cuda:0: "
                      "cublasLtMatmulAlgoGetHeuristic gave CUBLAS_STATUS_NOT_SUPPORTED ("),
            0U);
  asked = {.fails = true};
  const auto plan = math::cublas_plan("linear", p, gpu);
  EXPECT_EQ(test::message_of<DeviceError>([&] {
              plan->run("matmul", {nullptr, nullptr, nullptr, nullptr}, nullptr, Stream(gpu));
            })
                .find("matmul: c[4, 6] = a[4, 5] b[5, 6] of bf16, sums in f32 on cuda:0: "
                      "cublasLtMatmul gave CUBLAS_STATUS_EXECUTION_FAILED ("),
            0U);
}

TEST(CublasProduct, HasNoPlanWithAnEpilogueThatTheLibraryRefuses) {
  ColumnMajorProduct p = product_of({6, 4, 5}, DType::bf16);
  p.vector_alignment = 16;
  p.second = {false, 6, 0, 16};
  for (const Epilogue epilogue :
       {Epilogue::add_bias, Epilogue::sum_right, Epilogue::add_bias_gelu, Epilogue::gelu_slope}) {
    p.epilogue = epilogue;
    asked = {.has_algorithm = false};
    EXPECT_EQ(math::cublas_plan("linear", p, gpu), nullptr);
    asked = {.check = CUBLAS_STATUS_NOT_SUPPORTED};
    EXPECT_EQ(math::cublas_plan("linear", p, gpu), nullptr);
    asked = {.heuristics = CUBLAS_STATUS_INVALID_VALUE};
    EXPECT_EQ(math::cublas_plan("linear", p, gpu), nullptr);
  }
  p.epilogue = Epilogue::none;
  EXPECT_THROW(static_cast<void>(math::cublas_plan("linear", p, gpu)), Error);
}

}  // namespace
}  // namespace lockstep
