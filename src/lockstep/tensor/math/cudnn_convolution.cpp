// Uses cuDNN's calls for single convolutions instead of its graphs: they can add to a gradient,
// support groups, volumes and f64, and report for each algorithm whether it is deterministic.
#include <lockstep/tensor/math/cudnn_convolution.hpp>

#include <cudnn.h>

#include <array>
#include <span>
#include <string>

#include <lockstep/tensor/math/cudnn_handle.hpp>
#include <lockstep/tensor/runtime/cuda_device_scope.hpp>

namespace lockstep::math {
namespace {

using lockstep::detail::CudaDeviceScope;

/// An algorithm that needs more device memory is taken only if there is no other.
constexpr std::size_t workspace_limit = std::size_t{1} << 30U;

using Check = CudnnCheck<Convolution>;

/// A descriptor of cuDNN's.
template <class Type, cudnnStatus_t (*create)(Type*), cudnnStatus_t (*destroy)(Type)>
class Descriptor {
 public:
  Descriptor() = default;
  ~Descriptor() {
    if (descriptor_ != nullptr) static_cast<void>(destroy(descriptor_));
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  Type make(const Check& check) {
    check(create(&descriptor_), "cuDNN's creation of a descriptor");
    return descriptor_;
  }
  [[nodiscard]] Type get() const { return descriptor_; }

 private:
  Type descriptor_ = nullptr;
};
using TensorDescriptor =
    Descriptor<cudnnTensorDescriptor_t, cudnnCreateTensorDescriptor, cudnnDestroyTensorDescriptor>;
using FilterDescriptor =
    Descriptor<cudnnFilterDescriptor_t, cudnnCreateFilterDescriptor, cudnnDestroyFilterDescriptor>;
using ConvolutionDescriptor =
    Descriptor<cudnnConvolutionDescriptor_t, cudnnCreateConvolutionDescriptor,
               cudnnDestroyConvolutionDescriptor>;

/// The first of cuDNN's suggestions, best first, that is deterministic and within the limit, else
/// the deterministic one that needs least memory: cuDNN has none within it for the gradient of a
/// strided 1 x 1 convolution of 800 MiB. In 16 bits only those on tensor cores count.
template <class Suggestion>
const Suggestion& chosen(const Check& check, std::span<const Suggestion> suggestions,
                         bool only_tensor_cores) {
  const Suggestion* smallest = nullptr;
  for (const Suggestion& s : suggestions) {
    if (s.status != CUDNN_STATUS_SUCCESS || s.determinism != CUDNN_DETERMINISTIC) continue;
    if (only_tensor_cores && s.mathType != CUDNN_TENSOR_OP_MATH) continue;
    if (s.memory <= workspace_limit) return s;
    if (smallest == nullptr || s.memory < smallest->memory) smallest = &s;
  }
  if (smallest == nullptr) {
    throw NotSupportedError(
        check.sentence("cuDNN suggests no algorithm that gives the same bits every time"));
  }
  return *smallest;
}

class CudnnPlan final : public ConvolutionPlan {
 public:
  CudnnPlan(const char* name, const Convolution& convolution, Device device)
      : convolution_(convolution), device_(device) {
    const CudaDeviceScope here(device.index);
    const Check check(name, convolution_, device_, false);
    describe_tensors(check);
    describe_operation(check);
    const CudnnHandle handle(current_stream(device), check);
    choose(check, handle.get());
  }

  [[nodiscard]] std::size_t workspace_bytes() const noexcept override { return bytes_; }

  void run(const char* name, const ConvolutionAddresses& at, void* workspace,
           const Stream& stream) override {
    const CudaDeviceScope here(device_.index);
    const Check check(name, convolution_, device_, true);
    // Factors are double for f64, else float, for 16 bits too, and are read by the host.
    const double factors[] = {1.0, convolution_.accumulate ? 1.0 : 0.0};
    const float short_factors[] = {1.0F, convolution_.accumulate ? 1.0F : 0.0F};
    const bool is_double = convolution_.dtype == DType::f64;
    const void* const alpha = is_double ? static_cast<const void*>(factors) : short_factors;
    const void* const beta = is_double ? static_cast<const void*>(factors + 1) : short_factors + 1;
    const CudnnHandle handle(stream, check);
    switch (convolution_.pass) {
      case ConvolutionPass::forward:
        check(cudnnConvolutionForward(handle.get(), alpha, x_.get(), at.first, weight_.get(),
                                      at.second, operation_.get(), forward_, workspace, bytes_,
                                      beta, y_.get(), at.result),
              "cudnnConvolutionForward");
        break;
      case ConvolutionPass::backward_input:
        check(cudnnConvolutionBackwardData(handle.get(), alpha, weight_.get(), at.second, y_.get(),
                                           at.first, operation_.get(), backward_input_, workspace,
                                           bytes_, beta, x_.get(), at.result),
              "cudnnConvolutionBackwardData");
        break;
      case ConvolutionPass::backward_weight:
        check(cudnnConvolutionBackwardFilter(handle.get(), alpha, x_.get(), at.second, y_.get(),
                                             at.first, operation_.get(), backward_weight_,
                                             workspace, bytes_, beta, weight_.get(), at.result),
              "cudnnConvolutionBackwardFilter");
        break;
    }
  }

 private:
  [[nodiscard]] cudnnDataType_t type() const {
    switch (convolution_.dtype) {
      case DType::f64:
        return CUDNN_DATA_DOUBLE;
      case DType::bf16:
        return CUDNN_DATA_BFLOAT16;
      case DType::f16:
        return CUDNN_DATA_HALF;
      default:
        return CUDNN_DATA_FLOAT;
    }
  }
  [[nodiscard]] cudnnDataType_t type_of_sums() const {
    return is_half(convolution_.dtype) ? CUDNN_DATA_FLOAT : type();
  }

  void describe_tensors(const Check& check) {
    const Convolution& c = convolution_;
    const int dims = c.dims + 2;
    check(cudnnSetTensorNdDescriptor(x_.make(check), type(), dims, c.x.data(), c.x_strides.data()),
          "cudnnSetTensorNdDescriptor");
    check(cudnnSetTensorNdDescriptor(y_.make(check), type(), dims, c.y.data(), c.y_strides.data()),
          "cudnnSetTensorNdDescriptor");
    check(cudnnSetFilterNdDescriptor(weight_.make(check), type(),
                                     c.channels_last ? CUDNN_TENSOR_NHWC : CUDNN_TENSOR_NCHW, dims,
                                     c.weight.data()),
          "cudnnSetFilterNdDescriptor");
  }

  void describe_operation(const Check& check) {
    const Convolution& c = convolution_;
    const cudnnConvolutionDescriptor_t operation = operation_.make(check);
    check(
        cudnnSetConvolutionNdDescriptor(operation, c.dims, c.padding.data(), c.stride.data(),
                                        c.dilation.data(), CUDNN_CROSS_CORRELATION, type_of_sums()),
        "cudnnSetConvolutionNdDescriptor");
    check(cudnnSetConvolutionGroupCount(operation, c.groups), "cudnnSetConvolutionGroupCount");
    check(cudnnSetConvolutionMathType(operation, math_type()), "cudnnSetConvolutionMathType");
  }

  /// The default uses no tensor cores for 16 bits: on an H200 a ResNet-18 took 16 times as long
  /// as in TF32. In f32 it rounds operands to TF32: right where asked for, or where Lockstep has
  /// rounded them to 16 bits.
  [[nodiscard]] cudnnMathType_t math_type() const {
    const Convolution& c = convolution_;
    if (is_half(c.dtype)) return CUDNN_TENSOR_OP_MATH;
    return c.dtype == DType::f64 || c.rounded || c.tf32 ? CUDNN_DEFAULT_MATH : CUDNN_FMA_MATH;
  }

  template <class Suggestion, std::size_t N>
  auto algorithm(const Check& check, const std::array<Suggestion, N>& found, int count) const {
    const auto suggestions = std::span(found).first(static_cast<std::size_t>(count));
    return chosen(check, suggestions, is_half(convolution_.dtype)).algo;
  }

  /// Asks for the workspace of what will run: that of a suggestion may belong to the algorithm in
  /// another math type.
  void choose(const Check& check, cudnnHandle_t handle) {
    constexpr int most = 16;
    int count = 0;
    switch (convolution_.pass) {
      case ConvolutionPass::forward: {
        std::array<cudnnConvolutionFwdAlgoPerf_t, most> found{};
        check(cudnnGetConvolutionForwardAlgorithm_v7(handle, x_.get(), weight_.get(),
                                                     operation_.get(), y_.get(), most, &count,
                                                     found.data()),
              "cudnnGetConvolutionForwardAlgorithm_v7");
        forward_ = algorithm(check, found, count);
        check(cudnnGetConvolutionForwardWorkspaceSize(
                  handle, x_.get(), weight_.get(), operation_.get(), y_.get(), forward_, &bytes_),
              "cudnnGetConvolutionForwardWorkspaceSize");
        break;
      }
      case ConvolutionPass::backward_input: {
        std::array<cudnnConvolutionBwdDataAlgoPerf_t, most> found{};
        check(cudnnGetConvolutionBackwardDataAlgorithm_v7(handle, weight_.get(), y_.get(),
                                                          operation_.get(), x_.get(), most, &count,
                                                          found.data()),
              "cudnnGetConvolutionBackwardDataAlgorithm_v7");
        backward_input_ = algorithm(check, found, count);
        check(cudnnGetConvolutionBackwardDataWorkspaceSize(handle, weight_.get(), y_.get(),
                                                           operation_.get(), x_.get(),
                                                           backward_input_, &bytes_),
              "cudnnGetConvolutionBackwardDataWorkspaceSize");
        break;
      }
      case ConvolutionPass::backward_weight: {
        std::array<cudnnConvolutionBwdFilterAlgoPerf_t, most> found{};
        check(cudnnGetConvolutionBackwardFilterAlgorithm_v7(handle, x_.get(), y_.get(),
                                                            operation_.get(), weight_.get(), most,
                                                            &count, found.data()),
              "cudnnGetConvolutionBackwardFilterAlgorithm_v7");
        backward_weight_ = algorithm(check, found, count);
        check(cudnnGetConvolutionBackwardFilterWorkspaceSize(handle, x_.get(), y_.get(),
                                                             operation_.get(), weight_.get(),
                                                             backward_weight_, &bytes_),
              "cudnnGetConvolutionBackwardFilterWorkspaceSize");
        break;
      }
    }
  }

  Convolution convolution_;
  Device device_;
  TensorDescriptor x_, y_;
  FilterDescriptor weight_;
  ConvolutionDescriptor operation_;
  cudnnConvolutionFwdAlgo_t forward_{};
  cudnnConvolutionBwdDataAlgo_t backward_input_{};
  cudnnConvolutionBwdFilterAlgo_t backward_weight_{};
  std::size_t bytes_ = 0;
};

}  // namespace

std::unique_ptr<ConvolutionPlan> cudnn_plan(const char* name, const Convolution& convolution,
                                            Device device) {
  try {
    return std::make_unique<CudnnPlan>(name, convolution, device);
  } catch (const NotSupportedError&) {
    // Its caller computes it in f32, with TF32.
    if (is_half(convolution.dtype)) return nullptr;
    throw;
  }
}

}  // namespace lockstep::math
