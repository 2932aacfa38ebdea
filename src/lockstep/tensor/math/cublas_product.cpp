#include <lockstep/tensor/math/cublas_product.hpp>

#include <cublasLt.h>

#include <algorithm>
#include <array>
#include <mutex>
#include <string>

#include <lockstep/tensor/runtime/cuda_device_scope.hpp>

namespace lockstep::math {
namespace {

using lockstep::detail::CudaDeviceScope;

/// NVIDIA's recommendation for Hopper; the heuristics skip algorithms that need more.
constexpr std::uint64_t workspace_limit = std::uint64_t{32} << 20U;

cudaDataType type_of(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return CUDA_R_64F;
    case DType::bf16:
      return CUDA_R_16BF;
    case DType::f16:
      return CUDA_R_16F;
    default:
      return CUDA_R_32F;
  }
}

/// BGRADB sums the library's B, the right matrix. The library's gelu is by tanh.
cublasLtEpilogue_t epilogue_of(Epilogue epilogue) {
  switch (epilogue) {
    case Epilogue::add_bias:
      return CUBLASLT_EPILOGUE_BIAS;
    case Epilogue::add_bias_gelu:
      return CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
    case Epilogue::gelu_slope:
      return CUBLASLT_EPILOGUE_DGELU;
    case Epilogue::sum_right:
      return CUBLASLT_EPILOGUE_BGRADB;
    case Epilogue::none:
      break;
  }
  return CUBLASLT_EPILOGUE_DEFAULT;
}

/// Throws if a call fails: Error while the plan is made, DeviceError later.
class Check {
 public:
  Check(const char* name, const ColumnMajorProduct& product, Device device, bool is_planned)
      : name_(name), product_(product), device_(device), is_planned_(is_planned) {}
  void operator()(cublasStatus_t status, const char* call) const {
    if (status == CUBLAS_STATUS_SUCCESS) return;
    const std::string sentence =
        std::string(name_) + ": " + describe(product_) + " on " + to_string(device_) + ": " + call +
        " gave " + cublasLtGetStatusName(status) + " (" + cublasLtGetStatusString(status) + ")";
    if (is_planned_) throw DeviceError(sentence);
    throw Error(sentence);
  }

 private:
  const char* name_;
  const ColumnMajorProduct& product_;
  Device device_;
  bool is_planned_;
};

/// One handle a device, made once and never destroyed: threads may multiply until the process ends.
/// Its functions are thread-safe.
cublasLtHandle_t handle_of(Device device, const Check& check) {
  static std::mutex mutex;
  static std::array<cublasLtHandle_t, max_devices_of_a_type> handles{};
  const std::lock_guard lock(mutex);
  cublasLtHandle_t& handle = handles.at(static_cast<std::size_t>(device.index));
  if (handle == nullptr) check(cublasLtCreate(&handle), "cublasLtCreate");
  return handle;
}

class CublasPlan final : public ProductPlan {
 public:
  CublasPlan(const char* name, const ColumnMajorProduct& product, Device device)
      : product_(product), device_(device), is_double_(product.sums == DType::f64) {
    const CudaDeviceScope here(device.index);
    const Check check(name, product_, device_, false);
    handle_ = handle_of(device, check);
    describe_operation(check);
    const auto& p = product_;
    describe_matrix(check, left_, p.left, p.operands, p.rows, p.terms);
    describe_matrix(check, right_, p.right, p.operands, p.terms, p.columns);
    describe_matrix(check, result_, p.result, p.results, p.rows, p.columns);
    choose(check);
  }

  /// False for some products with an epilogue.
  [[nodiscard]] bool has_algorithm() const noexcept { return has_algorithm_; }
  [[nodiscard]] std::size_t workspace_bytes() const noexcept override { return bytes_; }

  void run(const char* name, const ProductAddresses& at, void* workspace,
           const Stream& stream) override {
    const CudaDeviceScope here(device_.index);
    const Check check(name, product_, device_, true);
    if (has_vector()) set(check, CUBLASLT_MATMUL_DESC_BIAS_POINTER, at.vector);
    if (has_second()) set(check, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, at.second);
    // Factors have the type of the sums and are read by the host.
    const double factors[] = {1.0, product_.accumulate ? 1.0 : 0.0};
    const float short_factors[] = {1.0F, product_.accumulate ? 1.0F : 0.0F};
    const void* const alpha = is_double_ ? static_cast<const void*>(factors) : short_factors;
    const void* const beta = is_double_ ? static_cast<const void*>(factors + 1) : short_factors + 1;
    check(cublasLtMatmul(handle_, &operation_, alpha, at.left, &left_, at.right, &right_, beta,
                         at.result, &result_, at.result, &result_, &algorithm_, workspace, bytes_,
                         stream.handle()),
          "cublasLtMatmul");
  }

 private:
  [[nodiscard]] bool has_vector() const noexcept {
    return product_.epilogue != Epilogue::none && product_.epilogue != Epilogue::gelu_slope;
  }
  [[nodiscard]] bool has_second() const noexcept {
    return product_.epilogue == Epilogue::add_bias_gelu ||
           product_.epilogue == Epilogue::gelu_slope;
  }

  template <class Value>
  void set(const Check& check, cublasLtMatmulDescAttributes_t attribute, const Value& value) {
    check(cublasLtMatmulDescSetAttribute(&operation_, attribute, &value, sizeof value),
          "cublasLtMatmulDescSetAttribute");
  }

  void describe_operation(const Check& check) {
    // COMPUTE_32F does not use TF32.
    const cublasComputeType_t compute_type = is_double_      ? CUBLAS_COMPUTE_64F
                                             : product_.tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32
                                                             : CUBLAS_COMPUTE_32F;
    check(cublasLtMatmulDescInit(&operation_, compute_type, type_of(product_.sums)),
          "cublasLtMatmulDescInit");
    const auto operation = [](const ColumnMajorProduct::Matrix& m) {
      return m.transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    };
    set(check, CUBLASLT_MATMUL_DESC_TRANSA, operation(product_.left));
    set(check, CUBLASLT_MATMUL_DESC_TRANSB, operation(product_.right));
    set(check, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue_of(product_.epilogue));
    // Heuristics use only the alignment of addresses.
    const auto aligned_to = [](int bytes) {
      return reinterpret_cast<const void*>(static_cast<std::uintptr_t>(bytes));
    };
    if (has_vector()) {
      set(check, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, type_of(product_.results));
      set(check, CUBLASLT_MATMUL_DESC_BIAS_POINTER, aligned_to(product_.vector_alignment));
    }
    if (has_second()) {
      set(check, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, product_.second.stride);
      set(check, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, aligned_to(product_.second.alignment));
    }
  }

  /// `rows` and `columns` as the product uses them.
  void describe_matrix(const Check& check, cublasLtMatrixLayoutOpaque_t& layout,
                       const ColumnMajorProduct::Matrix& matrix, DType dtype, std::int64_t rows,
                       std::int64_t columns) const {
    const auto stored_rows = static_cast<std::uint64_t>(matrix.transposed ? columns : rows);
    const auto stored_columns = static_cast<std::uint64_t>(matrix.transposed ? rows : columns);
    check(cublasLtMatrixLayoutInit(&layout, type_of(dtype), stored_rows, stored_columns,
                                   matrix.stride),
          "cublasLtMatrixLayoutInit");
    if (product_.count == 1) return;
    const auto count = static_cast<std::int32_t>(product_.count);
    check(cublasLtMatrixLayoutSetAttribute(&layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count,
                                           sizeof count),
          "cublasLtMatrixLayoutSetAttribute");
    check(cublasLtMatrixLayoutSetAttribute(&layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                                           &matrix.batch, sizeof matrix.batch),
          "cublasLtMatrixLayoutSetAttribute");
  }

  void choose(const Check& check) {
    cublasLtMatmulPreferenceOpaque_t preference;
    check(cublasLtMatmulPreferenceInit(&preference), "cublasLtMatmulPreferenceInit");
    const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, auto value) {
      check(cublasLtMatmulPreferenceSetAttribute(&preference, attribute, &value, sizeof value),
            "cublasLtMatmulPreferenceSetAttribute");
    };
    const auto alignment = [](int bytes) { return static_cast<std::uint32_t>(bytes); };
    prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspace_limit);
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment(product_.left.alignment));
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment(product_.right.alignment));
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment(product_.result.alignment));
    // The epilogue's operands have no preference of their own: the result's holds for all.
    int of_results = product_.result.alignment;
    if (has_vector()) of_results = std::min(of_results, product_.vector_alignment);
    if (has_second()) of_results = std::min(of_results, product_.second.alignment);
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment(of_results));
    // Otherwise parts of a sum that run side by side are added in the results' 16 bits.
    if (is_half(product_.results)) {
      prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
             std::uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
    }
    cublasLtMatmulHeuristicResult_t found{};
    int count = 0;
    cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
        handle_, &operation_, &left_, &right_, &result_, &result_, &preference, 1, &found, &count);
    if (status == CUBLAS_STATUS_SUCCESS) {
      status = count == 0 ? CUBLAS_STATUS_NOT_SUPPORTED : found.state;
    }
    // Heuristics may name an algorithm that does not have the epilogue.
    if (status == CUBLAS_STATUS_SUCCESS && product_.epilogue != Epilogue::none) {
      cublasLtMatmulHeuristicResult_t checked{};
      status = cublasLtMatmulAlgoCheck(handle_, &operation_, &left_, &right_, &result_, &result_,
                                       &found.algo, &checked);
    }
    // Without the epilogue, any error but that of a missing algorithm shows again.
    if (status != CUBLAS_STATUS_SUCCESS && product_.epilogue != Epilogue::none) return;
    check(status, "cublasLtMatmulAlgoGetHeuristic");
    has_algorithm_ = true;
    algorithm_ = found.algo;
    bytes_ = found.workspaceSize;
  }

  ColumnMajorProduct product_;
  Device device_;
  bool is_double_;
  cublasLtHandle_t handle_ = nullptr;
  cublasLtMatmulDescOpaque_t operation_{};
  cublasLtMatrixLayoutOpaque_t left_{}, right_{}, result_{};
  cublasLtMatmulAlgo_t algorithm_{};
  std::size_t bytes_ = 0;
  bool has_algorithm_ = false;
};

}  // namespace

std::unique_ptr<ProductPlan> cublas_plan(const char* name, const ColumnMajorProduct& product,
                                         Device device) {
  auto plan = std::make_unique<CublasPlan>(name, product, device);
  if (!plan->has_algorithm()) return nullptr;
  return plan;
}

}  // namespace lockstep::math
