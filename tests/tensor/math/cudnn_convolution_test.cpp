// What Lockstep tells cuDNN, without a GPU: the library's own descriptors, and functions of this
// file in place of those that need one. They read the descriptors back and compute what these say.
#include <cudnn.h>

#include <array>
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>
#include <lockstep/base/error.hpp>
#include <lockstep/tensor/half.hpp>
#include <lockstep/tensor/kernels/conv/conv2d.hpp>
#include <lockstep/tensor/kernels/conv/conv_device.hpp>
#include <lockstep/tensor/math/cudnn_convolution.hpp>
#include <lockstep/tensor/precision.hpp>
#include <lockstep/tensor/runtime/device_runtime.hpp>
#include <lockstep/tensor/tf32.hpp>
#include <support/message_of.hpp>

namespace {

/// What cuDNN was told, and how it answers.
struct CudnnAsked {
  cudnnMathType_t math_type{};
  int groups = 0;
  bool has_algorithm = true, has_tensor_cores = true;
  cudnnStatus_t status = CUDNN_STATUS_SUCCESS;  ///< of the request for suggestions
};
CudnnAsked cudnn_asked;

int cudnn_tag;  // what handles point to

/// Bytes of workspace of the right algorithm, as suggested in another math type and as it runs.
constexpr std::size_t suggested_bytes = 100, bytes_of_run = 200;

/// Of those that are suggested the fourth is right: the first may give other bits each time, the
/// second takes too much memory, and in 16 bits the third uses no tensor cores.
template <class Suggestion>
cudnnStatus_t suggest(cudnnConvolutionDescriptor_t operation, int* count, Suggestion* found) {
  EXPECT_EQ(cudnnGetConvolutionMathType(operation, &cudnn_asked.math_type), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(cudnnGetConvolutionGroupCount(operation, &cudnn_asked.groups), CUDNN_STATUS_SUCCESS);
  const bool is_half = cudnn_asked.math_type == CUDNN_TENSOR_OP_MATH;
  const int right = is_half ? 3 : 2;
  for (int i = 0; i <= right; ++i) {
    found[i] = {};
    found[i].algo = static_cast<decltype(found[i].algo)>(i);
    found[i].status = CUDNN_STATUS_SUCCESS;
    found[i].determinism = i == 0 ? CUDNN_NON_DETERMINISTIC : CUDNN_DETERMINISTIC;
    found[i].memory = i == 1 ? std::size_t{1} << 31U : suggested_bytes;
    const bool uses_tensor_cores = cudnn_asked.has_tensor_cores && i != 2;
    found[i].mathType = is_half && !uses_tensor_cores ? CUDNN_DEFAULT_MATH : cudnn_asked.math_type;
  }
  const int with_tensor_cores = cudnn_asked.has_tensor_cores ? right + 1 : right;
  *count = cudnn_asked.has_algorithm ? with_tensor_cores : 1;
  return cudnn_asked.status;
}

void expect_right(int algorithm, cudnnConvolutionDescriptor_t operation) {
  cudnnMathType_t math_type{};
  EXPECT_EQ(cudnnGetConvolutionMathType(operation, &math_type), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(algorithm, math_type == CUDNN_TENSOR_OP_MATH ? 3 : 2);
}

cudnnStatus_t give_workspace(int algorithm, cudnnConvolutionDescriptor_t operation,
                             std::size_t* bytes) {
  expect_right(algorithm, operation);
  *bytes = bytes_of_run;
  return CUDNN_STATUS_SUCCESS;
}

/// Of a tensor or a filter.
struct Lying {
  cudnnDataType_t type{};
  int dims = 0;
  std::array<int, 5> extents{}, strides{};

  static Lying of(cudnnTensorDescriptor_t descriptor) {
    Lying x;
    EXPECT_EQ(cudnnGetTensorNdDescriptor(descriptor, 5, &x.type, &x.dims, x.extents.data(),
                                         x.strides.data()),
              CUDNN_STATUS_SUCCESS);
    return x;
  }
  static Lying of(cudnnFilterDescriptor_t descriptor) {
    Lying w;
    cudnnTensorFormat_t format{};
    EXPECT_EQ(
        cudnnGetFilterNdDescriptor(descriptor, 5, &w.type, &format, &w.dims, w.extents.data()),
        CUDNN_STATUS_SUCCESS);
    // From the innermost dimension to the outermost.
    std::vector<std::size_t> order;
    if (format == CUDNN_TENSOR_NHWC) order.push_back(1);
    for (auto d = static_cast<std::size_t>(w.dims) - 1; d > 0; --d) {
      if (d > 1 || format == CUDNN_TENSOR_NCHW) order.push_back(d);
    }
    order.push_back(0);
    int stride = 1;
    for (const std::size_t d : order) {
      w.strides[d] = stride;
      stride *= w.extents[d];
    }
    return w;
  }
};

/// f(place in x, in w, in y) for every product that is summed.
template <class F>
void for_each_term(const Lying& x, const Lying& w, const Lying& y,
                   cudnnConvolutionDescriptor_t operation, const F& f) {
  std::array<int, 3> padding{}, stride{}, dilation{};
  int dims = 0, groups = 0;
  cudnnConvolutionMode_t mode{};
  cudnnDataType_t type{};
  EXPECT_EQ(cudnnGetConvolutionNdDescriptor(operation, 3, &dims, padding.data(), stride.data(),
                                            dilation.data(), &mode, &type),
            CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(cudnnGetConvolutionGroupCount(operation, &groups), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(mode, CUDNN_CROSS_CORRELATION);
  EXPECT_EQ(type, x.type == CUDNN_DATA_DOUBLE ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT);
  ASSERT_EQ(dims + 2, x.dims);
  const auto n = static_cast<std::size_t>(dims);
  std::array<int, 5> at_y{}, tap{};
  // Numbers of y's and of w's elements, as digits.
  const auto next = [](std::array<int, 5>& digits, const Lying& of) {
    for (auto d = static_cast<std::size_t>(of.dims); d-- > 0;) {
      if (++digits[d] < of.extents[d]) return true;
      digits[d] = 0;
    }
    return false;
  };
  do {
    do {
      const int outputs = y.extents[1] / groups;
      if (tap[0] != at_y[1]) continue;
      std::int64_t in_x =
          at_y[0] * x.strides[0] + (at_y[1] / outputs * w.extents[1] + tap[1]) * x.strides[1];
      std::int64_t in_y = 0, in_w = 0;
      bool inside = true;
      for (std::size_t d = 0; d < n; ++d) {
        const int at = at_y[d + 2] * stride[d] - padding[d] + tap[d + 2] * dilation[d];
        inside = inside && at >= 0 && at < x.extents[d + 2];
        in_x += static_cast<std::int64_t>(at) * x.strides[d + 2];
      }
      for (std::size_t d = 0; d < n + 2; ++d) {
        in_y += at_y[d] * y.strides[d];
        in_w += tap[d] * w.strides[d];
      }
      if (inside) f(in_x, in_w, in_y);
    } while (next(tap, w));
  } while (next(at_y, y));
}

double number(cudnnDataType_t type, const void* data, std::int64_t i) {
  switch (type) {
    case CUDNN_DATA_DOUBLE:
      return static_cast<const double*>(data)[i];
    case CUDNN_DATA_BFLOAT16:
      return static_cast<double>(static_cast<const lockstep::BFloat16*>(data)[i]);
    case CUDNN_DATA_HALF:
      return static_cast<double>(static_cast<const lockstep::Float16*>(data)[i]);
    default:
      EXPECT_EQ(type, CUDNN_DATA_FLOAT);
      return static_cast<const float*>(data)[i];
  }
}

void set_number(cudnnDataType_t type, void* data, std::int64_t i, double value) {
  const auto in_float = static_cast<float>(value);
  switch (type) {
    case CUDNN_DATA_DOUBLE:
      static_cast<double*>(data)[i] = value;
      break;
    case CUDNN_DATA_BFLOAT16:
      static_cast<lockstep::BFloat16*>(data)[i] = lockstep::BFloat16(in_float);
      break;
    case CUDNN_DATA_HALF:
      static_cast<lockstep::Float16*>(data)[i] = lockstep::Float16(in_float);
      break;
    default:
      static_cast<float*>(data)[i] = in_float;
  }
}

/// result = beta result, then += first second at the places that `for_each` names; rounded once.
template <class ForEach>
void sum_up(const Lying& result, const void* beta, void* to, const ForEach& for_each) {
  std::int64_t elements = 1;
  for (int d = 0; d < result.dims; ++d) elements *= result.extents[static_cast<std::size_t>(d)];
  const double keep =
      number(result.type == CUDNN_DATA_DOUBLE ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT, beta, 0);
  std::vector<double> sums(static_cast<std::size_t>(elements));
  for (std::int64_t i = 0; i < elements; ++i) {
    if (keep != 0) sums[static_cast<std::size_t>(i)] = keep * number(result.type, to, i);
  }
  for_each([&](std::int64_t i, double product) { sums[static_cast<std::size_t>(i)] += product; });
  for (std::int64_t i = 0; i < elements; ++i) {
    set_number(result.type, to, i, sums[static_cast<std::size_t>(i)]);
  }
}

}  // namespace

extern "C" {

cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  *handle = reinterpret_cast<cudnnHandle_t>(&cudnn_tag);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetStream(cudnnHandle_t /*handle*/, cudaStream_t /*stream*/) {
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetConvolutionForwardAlgorithm_v7(
    cudnnHandle_t /*handle*/, const cudnnTensorDescriptor_t x, const cudnnFilterDescriptor_t w,
    const cudnnConvolutionDescriptor_t operation, const cudnnTensorDescriptor_t y,
    const int /*requested*/, int* count, cudnnConvolutionFwdAlgoPerf_t* found) {
  std::array<int, 5> extents{};
  const Lying of_y = Lying::of(y);
  EXPECT_EQ(cudnnGetConvolutionNdForwardOutputDim(operation, x, w, of_y.dims, extents.data()),
            CUDNN_STATUS_SUCCESS);
  for (std::size_t d = 0; d < static_cast<std::size_t>(of_y.dims); ++d) {
    EXPECT_EQ(extents[d], of_y.extents[d]);
  }
  return suggest(operation, count, found);
}

cudnnStatus_t cudnnGetConvolutionBackwardDataAlgorithm_v7(
    cudnnHandle_t /*handle*/, const cudnnFilterDescriptor_t /*w*/,
    const cudnnTensorDescriptor_t /*y*/, const cudnnConvolutionDescriptor_t operation,
    const cudnnTensorDescriptor_t /*x*/, const int /*requested*/, int* count,
    cudnnConvolutionBwdDataAlgoPerf_t* found) {
  return suggest(operation, count, found);
}

cudnnStatus_t cudnnGetConvolutionBackwardFilterAlgorithm_v7(
    cudnnHandle_t /*handle*/, const cudnnTensorDescriptor_t /*x*/,
    const cudnnTensorDescriptor_t /*y*/, const cudnnConvolutionDescriptor_t operation,
    const cudnnFilterDescriptor_t /*w*/, const int /*requested*/, int* count,
    cudnnConvolutionBwdFilterAlgoPerf_t* found) {
  return suggest(operation, count, found);
}

cudnnStatus_t cudnnGetConvolutionForwardWorkspaceSize(
    cudnnHandle_t /*handle*/, const cudnnTensorDescriptor_t /*x*/,
    const cudnnFilterDescriptor_t /*w*/, const cudnnConvolutionDescriptor_t operation,
    const cudnnTensorDescriptor_t /*y*/, cudnnConvolutionFwdAlgo_t algorithm, std::size_t* bytes) {
  return give_workspace(algorithm, operation, bytes);
}

cudnnStatus_t cudnnGetConvolutionBackwardDataWorkspaceSize(
    cudnnHandle_t /*handle*/, const cudnnFilterDescriptor_t /*w*/,
    const cudnnTensorDescriptor_t /*y*/, const cudnnConvolutionDescriptor_t operation,
    const cudnnTensorDescriptor_t /*x*/, cudnnConvolutionBwdDataAlgo_t algorithm,
    std::size_t* bytes) {
  return give_workspace(algorithm, operation, bytes);
}

cudnnStatus_t cudnnGetConvolutionBackwardFilterWorkspaceSize(
    cudnnHandle_t /*handle*/, const cudnnTensorDescriptor_t /*x*/,
    const cudnnTensorDescriptor_t /*y*/, const cudnnConvolutionDescriptor_t operation,
    const cudnnFilterDescriptor_t /*w*/, cudnnConvolutionBwdFilterAlgo_t algorithm,
    std::size_t* bytes) {
  return give_workspace(algorithm, operation, bytes);
}

cudnnStatus_t cudnnConvolutionForward(cudnnHandle_t /*handle*/, const void* /*alpha*/,
                                      const cudnnTensorDescriptor_t x_descriptor, const void* x,
                                      const cudnnFilterDescriptor_t w_descriptor, const void* w,
                                      const cudnnConvolutionDescriptor_t operation,
                                      cudnnConvolutionFwdAlgo_t algorithm, void* /*workspace*/,
                                      std::size_t bytes, const void* beta,
                                      const cudnnTensorDescriptor_t y_descriptor, void* y) {
  expect_right(algorithm, operation);
  EXPECT_EQ(bytes, bytes_of_run);
  const Lying of_x = Lying::of(x_descriptor), of_w = Lying::of(w_descriptor),
              of_y = Lying::of(y_descriptor);
  sum_up(of_y, beta, y, [&](const auto& add) {
    for_each_term(of_x, of_w, of_y, operation, [&](auto at_x, auto at_w, auto at_y) {
      add(at_y, number(of_x.type, x, at_x) * number(of_w.type, w, at_w));
    });
  });
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnConvolutionBackwardData(
    cudnnHandle_t /*handle*/, const void* /*alpha*/, const cudnnFilterDescriptor_t w_descriptor,
    const void* w, const cudnnTensorDescriptor_t y_descriptor, const void* g,
    const cudnnConvolutionDescriptor_t operation, cudnnConvolutionBwdDataAlgo_t algorithm,
    void* /*workspace*/, std::size_t bytes, const void* beta,
    const cudnnTensorDescriptor_t x_descriptor, void* x) {
  expect_right(algorithm, operation);
  EXPECT_EQ(bytes, bytes_of_run);
  const Lying of_x = Lying::of(x_descriptor), of_w = Lying::of(w_descriptor),
              of_y = Lying::of(y_descriptor);
  sum_up(of_x, beta, x, [&](const auto& add) {
    for_each_term(of_x, of_w, of_y, operation, [&](auto at_x, auto at_w, auto at_y) {
      add(at_x, number(of_y.type, g, at_y) * number(of_w.type, w, at_w));
    });
  });
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnConvolutionBackwardFilter(
    cudnnHandle_t /*handle*/, const void* /*alpha*/, const cudnnTensorDescriptor_t x_descriptor,
    const void* x, const cudnnTensorDescriptor_t y_descriptor, const void* g,
    const cudnnConvolutionDescriptor_t operation, cudnnConvolutionBwdFilterAlgo_t algorithm,
    void* /*workspace*/, std::size_t bytes, const void* beta,
    const cudnnFilterDescriptor_t w_descriptor, void* w) {
  expect_right(algorithm, operation);
  EXPECT_EQ(bytes, bytes_of_run);
  const Lying of_x = Lying::of(x_descriptor), of_w = Lying::of(w_descriptor),
              of_y = Lying::of(y_descriptor);
  sum_up(of_w, beta, w, [&](const auto& add) {
    for_each_term(of_x, of_w, of_y, operation, [&](auto at_x, auto at_w, auto at_y) {
      add(at_w, number(of_y.type, g, at_y) * number(of_x.type, x, at_x));
    });
  });
  return CUDNN_STATUS_SUCCESS;
}

}  // extern "C"

namespace lockstep {
namespace {

using detail::Conv2dProblem;
using math::ConvolutionPass;

constexpr Device gpu{DeviceType::cuda, 0};

Tensor numbers(const Shape& shape, DType dtype, std::size_t seed) {
  std::vector<double> values(static_cast<std::size_t>(shape.numel()));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = (static_cast<double>((i * 7 + seed * 5) % 17) - 8) / 8;
  }
  return Tensor::from(values, shape).to(dtype);
}

/// By the plan for a GPU, on memory of the host.
void run(const Conv2dProblem& problem, ConvolutionPass pass, bool accumulate, const Tensor& first,
         const Tensor& second, const Tensor& result) {
  math::Convolution c = convolution_of(problem, pass, result.dtype(), problem.n);
  c.accumulate = accumulate;
  math::cudnn_plan("conv2d", c, gpu)
      ->run("conv2d", {first.data(), second.data(), result.data()}, nullptr, Stream(gpu));
}

void expect_same(const Tensor& found, const Tensor& expected) {
  const auto x = found.to(DType::f64).to_vector<double>(),
             y = expected.to(DType::f64).to_vector<double>();
  ASSERT_EQ(x.size(), y.size());
  for (std::size_t i = 0; i < x.size(); ++i) ASSERT_NEAR(x[i], y[i], 1e-4) << i;
}

TEST(CudnnConvolution, ReceivesTheDescriptionOfTheConvolution) {
  cudnn_asked = {};
  const Conv2dOptions all_options[] = {{},
                                       {.stride = {2, 1}, .padding = {1, 2}},
                                       {.padding = 2, .dilation = {1, 2}},
                                       {.padding = 1, .groups = 2}};
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16, DType::f16}) {
    for (const Conv2dOptions& options : all_options) {
      SCOPED_TRACE(testing::Message() << name_of(dtype) << " options " << (&options - all_options));
      // The host computes in f32 what has 16 bits; sums are exact, and so rounded to the nearest.
      const auto on_host = [](const Tensor& t) {
        return is_half(t.dtype()) ? t.to(DType::f32) : t;
      };
      const Tensor x = numbers({2, 4, 7, 9}, dtype, 1);
      const Tensor w = numbers({6, 4 / options.groups, 3, 2}, dtype, 2);
      const Tensor y = Tensor::empty(conv2d_shape(x, w, {}, options), dtype), g = y.clone();
      g.copy_from(numbers(y.shape(), dtype, 3));
      const Conv2dProblem problem = Conv2dProblem::of(x, w, y, options);
      const Tensor expected = on_host(y).clone();
      conv2d_forward(on_host(x), on_host(w), {}, options, expected);
      run(problem, ConvolutionPass::forward, false, x, w, y);
      expect_same(y, expected.to(dtype));
      for (const bool accumulate : {false, true}) {
        const Tensor grad_x = numbers(x.shape(), dtype, 4), of_x = on_host(grad_x).clone();
        conv2d_backward_input(on_host(g), on_host(w), options, accumulate, of_x);
        run(problem, ConvolutionPass::backward_input, accumulate, g, w, grad_x);
        expect_same(grad_x, of_x.to(dtype));
        const Tensor grad_w = numbers(w.shape(), dtype, 5), of_w = on_host(grad_w).clone();
        conv2d_backward_weight(on_host(g), on_host(x), options, accumulate, of_w);
        run(problem, ConvolutionPass::backward_weight, accumulate, g, x, grad_w);
        expect_same(grad_w, of_w.to(dtype));
      }
      EXPECT_EQ(cudnn_asked.groups, options.groups);
    }
  }
}

/// x[N,C,H,W] stored as [N,H,W,C].
Tensor with_channels_last(const Tensor& x) {
  const auto from = x.to(DType::f64).to_vector<double>();
  std::vector<double> to;
  const std::int64_t channels = x.size(1), positions = x.size(2) * x.size(3);
  for (std::int64_t n = 0; n < x.size(0); ++n) {
    for (std::int64_t p = 0; p < positions; ++p) {
      for (std::int64_t c = 0; c < channels; ++c) {
        to.push_back(from[static_cast<std::size_t>((n * channels + c) * positions + p)]);
      }
    }
  }
  return Tensor::from(to, x.shape()).to(x.dtype());
}

TEST(CudnnConvolution, ReceivesTensorsWithChannelsLast) {
  cudnn_asked = {};
  const Conv2dOptions options{.stride = {2, 1}, .padding = {1, 2}, .groups = 2};
  for (const DType dtype : {DType::bf16, DType::f16}) {
    const Tensor x = numbers({2, 16, 5, 4}, dtype, 1), w = numbers({8, 8, 3, 2}, dtype, 2);
    const Shape shape = conv2d_shape(x, w, {}, options);
    const Tensor g = numbers(shape, dtype, 3);
    const auto compute = [&](ConvolutionPass pass, const Tensor& first, const Tensor& second,
                             const Shape& result) {
      const Conv2dProblem problem = Conv2dProblem::of(x, w, Tensor::empty(shape, dtype), options);
      const auto by_plan = [&](const math::Convolution& c, const Tensor& a, const Tensor& b) {
        const Tensor to = Tensor::empty(result, dtype);
        math::cudnn_plan("conv2d", c, gpu)
            ->run("conv2d", {a.data(), b.data(), to.data()}, nullptr, Stream(gpu));
        return to;
      };
      const math::Convolution plain = convolution_of(problem, pass, dtype, problem.n);
      expect_same(by_plan(detail::with_channels_last(plain), with_channels_last(first),
                          with_channels_last(second)),
                  with_channels_last(by_plan(plain, first, second)));
    };
    compute(ConvolutionPass::forward, x, w, shape);
    compute(ConvolutionPass::backward_input, g, w, x.shape());
    compute(ConvolutionPass::backward_weight, g, x, w.shape());
  }
}

Conv2dProblem small_problem() {
  return {.n = 1, .c = 2, .h = 5, .w = 5, .o = 2, .kh = 3, .kw = 3, .oh = 3, .ow = 3};
}

TEST(CudnnConvolution, UsesTf32ForRoundedOperandsOrWhereAllowed) {
  const auto math_type = [](DType dtype) {
    static_cast<void>(math::cudnn_plan(
        "conv2d", convolution_of(small_problem(), ConvolutionPass::forward, dtype, 1), gpu));
    return cudnn_asked.math_type;
  };
  EXPECT_EQ(math_type(DType::f32), CUDNN_FMA_MATH);
  EXPECT_EQ(math_type(DType::f64), CUDNN_DEFAULT_MATH);
  EXPECT_EQ(math_type(DType::bf16), CUDNN_TENSOR_OP_MATH);
  EXPECT_EQ(math_type(DType::f16), CUDNN_TENSOR_OP_MATH);
  allow_tf32(true);
  EXPECT_EQ(math_type(DType::f32), CUDNN_DEFAULT_MATH);
  allow_tf32(false);
  EXPECT_EQ(math_type(DType::f32), CUDNN_FMA_MATH);
  const PrecisionGuard bf16(Precision::bf16);
  EXPECT_EQ(math_type(DType::f32), CUDNN_DEFAULT_MATH);
}

TEST(CudnnConvolution, NamesTheProblemItCannotComputeButIn16BitsHasNoPlan) {
  cudnn_asked = {.has_algorithm = false};
  EXPECT_EQ(test::message_of<Error>([] {
              static_cast<void>(math::cudnn_plan(
                  "conv2d",
                  convolution_of(small_problem(), ConvolutionPass::forward, DType::f32, 1), gpu));
            }),
            "conv2d: forward of x[1, 2, 5, 5], weight[2, 2, 3, 3] and y[1, 2, 3, 3] of f32, stride "
            "1 x 1, padding 0 x 0, dilation 1 x 1, 1 group on cuda:0: cuDNN suggests no algorithm "
            "that gives the same bits every time");
  for (const DType dtype : {DType::bf16, DType::f16}) {
    EXPECT_EQ(
        math::cudnn_plan("conv2d",
                         convolution_of(small_problem(), ConvolutionPass::forward, dtype, 1), gpu),
        nullptr);
  }
  cudnn_asked = {};
}

TEST(CudnnConvolution, HasNoPlanOnlyWhereTheLibraryLacksOneForGood) {
  const auto plan = [](DType dtype) {
    return math::cudnn_plan(
        "conv2d", convolution_of(small_problem(), ConvolutionPass::forward, dtype, 1), gpu);
  };
  for (const cudnnStatus_t lacks : {CUDNN_STATUS_NOT_SUPPORTED, CUDNN_STATUS_NOT_SUPPORTED_SHAPE}) {
    cudnn_asked = {.status = lacks};
    EXPECT_EQ(plan(DType::bf16), nullptr);
    EXPECT_EQ(plan(DType::f16), nullptr);
    EXPECT_THROW(static_cast<void>(plan(DType::f32)), Error);
  }
  for (const cudnnStatus_t passing : {CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED,
                                      CUDNN_STATUS_EXECUTION_FAILED_CUDA_DRIVER}) {
    cudnn_asked = {.status = passing};
    for (const DType dtype : {DType::bf16, DType::f16, DType::f32})
      EXPECT_THROW(static_cast<void>(plan(dtype)), Error);
  }
  cudnn_asked = {};
}

TEST(CudnnConvolution, HasNoPlanIn16BitsWithoutTensorCores) {
  cudnn_asked = {.has_tensor_cores = false};
  for (const DType dtype : {DType::bf16, DType::f16}) {
    EXPECT_EQ(
        math::cudnn_plan("conv2d",
                         convolution_of(small_problem(), ConvolutionPass::forward, dtype, 1), gpu),
        nullptr);
  }
  cudnn_asked = {};
}

}  // namespace
}  // namespace lockstep
