#pragma once
// The parts that a GPU vendor's libraries compute: products, convolutions and attention. Operations
// call math::product (product.hpp), the convolutions (kernels/conv/conv_task.hpp) and attention
// (kernels/sequence/attention.hpp), which choose between the host's libraries, kernels and these;
// they know no vendor.
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include <lockstep/tensor/device.hpp>
#include <lockstep/tensor/dtype.hpp>
#include <lockstep/tensor/stream.hpp>

namespace lockstep::math {

/// What one product does besides, with a vector or a second matrix of the results' dtype.
enum class Epilogue : std::uint8_t {
  none,
  add_bias,       ///< adds vector[rows] to each column of the result
  add_bias_gelu,  ///< the same into second[rows,columns]; the result is gelu of it, by tanh
  gelu_slope,     ///< multiplies the result by the slope of gelu, by tanh, at second[rows,columns]
  sum_right,      ///< overwrites vector[columns] with sums of the right matrix over the terms
};

/// A stack of products in the terms of the BLAS, whose matrices are column-major:
///   result[rows,columns] (+)= left[rows,terms] right[terms,columns], and the epilogue
struct ColumnMajorProduct {
  struct Matrix {
    bool transposed = false;  ///< the product uses the transpose of the stored matrix
    std::int64_t stride = 0;  ///< elements between stored columns: the leading dimension
    std::int64_t batch = 0;   ///< elements between one matrix of the stack and the next
    int alignment = 0;        ///< bytes, a power of 2: the alignment of every matrix
    friend bool operator==(const Matrix&, const Matrix&) = default;
  };

  DType operands = DType::f32, sums = DType::f32;
  DType results = DType::f32;  ///< of the result, what it adds to, and the epilogue's operands
  bool tf32 = false;           ///< units for TF32 may multiply operands of f32
  std::int64_t rows = 0, columns = 0, terms = 0, count = 1;
  Matrix left, right, result;
  bool accumulate = false;
  Epilogue epilogue = Epilogue::none;
  int vector_alignment = 0;  ///< bytes, a power of 2
  Matrix second;             ///< the epilogue's, as the result
  friend bool operator==(const ColumnMajorProduct&, const ColumnMajorProduct&) = default;
};

/// The addresses of the matrices of one product, and of its epilogue's operands, if it has them.
struct ProductAddresses {
  const void *left, *right;
  void *result, *vector, *second = nullptr;
};

enum class ConvolutionPass : std::uint8_t { forward, backward_input, backward_weight };

/// One pass of a convolution over `dims` spatial dimensions, 2 or 3, in the int that libraries
/// count by. Arrays hold [N,C,...], the weight's [O,C/groups,...], strides in elements. All three
/// tensors are stored in this order, or with channels last, as [N,...,C] and [O,...,C/groups].
struct Convolution {
  ConvolutionPass pass = ConvolutionPass::forward;
  DType dtype = DType::f32;  ///< of all three tensors; sums of 16 bits are f32
  /// The operands are f32, but their values are rounded to 16 bits: units for TF32 lose nothing.
  bool rounded = false;
  bool tf32 = false;  ///< units for TF32 may multiply operands of f32
  bool accumulate = false, channels_last = false;
  int dims = 2;
  std::array<int, 5> x{}, weight{}, y{}, x_strides{}, y_strides{};
  std::array<int, 3> stride{}, padding{}, dilation{};
  int groups = 1;
  friend bool operator==(const Convolution&, const Convolution&) = default;
};

/// The two that are read, in the order of the operation's name (x and weight; grad_y and weight;
/// grad_y and x), and the one that is written.
struct ConvolutionAddresses {
  const void *first, *second;
  void* result;
};

enum class AttentionPass : std::uint8_t { forward, backward };

/// One pass of attention (kernels/sequence/attention.hpp) to all keys, in one kernel or a few:
/// scores are in f32 and never in memory, probabilities are rounded to `dtype` for the products.
/// Query i sees keys j <= i only, if `causal`.
struct Attention {
  /// Elements between samples, heads and rows of an operand [batch, heads, queries, width] or
  /// [batch, heads / group_heads, keys, width], whose rows are contiguous.
  struct Strides {
    std::int64_t batch = 0, head = 0, row = 0;
    friend bool operator==(const Strides&, const Strides&) = default;
  };

  AttentionPass pass = AttentionPass::forward;
  DType dtype = DType::bf16;  ///< bf16 or f16, of all operands but the log-sums
  std::int64_t batch = 0, heads = 0, queries = 0, keys = 0, width = 0;
  std::int64_t group_heads = 1;  ///< query heads for each head of keys and values
  double scale = 1.0;
  bool causal = false;
  /// Elements between the rows of a key bias [batch, keys] of f32, which is added to the scaled
  /// scores of each sample's keys; 0: there is none.
  std::int64_t key_bias_row = 0;
  int alignment = 0;  ///< bytes, a power of 2 of at most 16: of every row and of the log-sums
  Strides q, k, v, out;
  Strides grad_out, grad_q, grad_k, grad_v;  ///< of backward only
  friend bool operator==(const Attention&, const Attention&) = default;
};

/// log_sum[batch, heads, queries] is contiguous, of f32: natural logarithms of the rows' sums of
/// exp(scale q k^T + key_bias); with a log-sum of +inf a row's gradients are 0. Forward writes
/// `out` and `log_sum`; backward reads them, writes the three gradients and adds to none.
struct AttentionAddresses {
  const void *q = nullptr, *k = nullptr, *v = nullptr, *key_bias = nullptr;
  void *out = nullptr, *log_sum = nullptr;
  const void* grad_out = nullptr;
  void *grad_q = nullptr, *grad_k = nullptr, *grad_v = nullptr;
};

/// "c[4, 6] = a[4, 5] b[6, 5]^T of bf16, sums in f32, rounded to bf16, 3 times": row-major, as
/// Lockstep sees it.
[[nodiscard]] std::string describe(const ColumnMajorProduct& product);
/// "backward_weight of x[8, 3, 32, 32], weight[16, 3, 3, 3] and y[8, 16, 30, 30] of f32, stride 1 x
/// 1, padding 0 x 0, dilation 1 x 1, 1 group", or "... of bf16 with channels last, stride ...".
[[nodiscard]] std::string describe(const Convolution& convolution);
/// "backward of q[2, 12, 1024, 64] to 1024 keys in 4 heads of bf16, causal, with a key bias".
[[nodiscard]] std::string describe(const Attention& attention);

/// How one problem is computed on one device: made once, run again and again by one thread.
template <class Addresses>
class Plan {
 public:
  Plan() = default;
  virtual ~Plan() = default;
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;

  /// Of the device, that a run needs for itself.
  [[nodiscard]] virtual std::size_t workspace_bytes() const noexcept = 0;
  /// Enqueues it. They are kernel addresses. `name` is the calling operation, for DeviceError's
  /// message.
  virtual void run(const char* name, const Addresses& at, void* workspace,
                   const Stream& stream) = 0;
};
using ProductPlan = Plan<ProductAddresses>;
using ConvolutionPlan = Plan<ConvolutionAddresses>;
using FusedAttentionPlan = Plan<AttentionAddresses>;

/// The libraries of one vendor. Algorithms are chosen by the library's heuristics, never by timing,
/// and give the same bits every time. Throws Error, in a sentence that names the operation
/// (`name`), the problem and the library's status, if they cannot compute it. Thread-safe.
class DeviceMath {
 public:
  virtual ~DeviceMath() = default;
  DeviceMath(const DeviceMath&) = delete;
  DeviceMath& operator=(const DeviceMath&) = delete;

  /// Null for a product that the library has only without its epilogue.
  [[nodiscard]] virtual std::unique_ptr<ProductPlan> plan(const char* name,
                                                          const ColumnMajorProduct& product,
                                                          Device device) = 0;
  /// Null for one of 16 bits that the library lacks.
  [[nodiscard]] virtual std::unique_ptr<ConvolutionPlan> plan(const char* name,
                                                              const Convolution& convolution,
                                                              Device device) = 0;
  /// Null for one that the library lacks.
  [[nodiscard]] virtual std::unique_ptr<FusedAttentionPlan> plan(const char* name,
                                                                 const Attention& attention,
                                                                 Device device) = 0;

 protected:
  DeviceMath() = default;
};

/// The math of the device's vendor; null where the host's libraries compute: on the host, on
/// simulated devices (except while a MathStandIn lives), and in a build without CUDA.
[[nodiscard]] DeviceMath* device_math(Device device) noexcept;

/// While it lives, `math` serves simulated devices, and host_task refuses them as it does a GPU: so
/// tests run all that a GPU runs but its vendor's libraries.
class MathStandIn {
 public:
  explicit MathStandIn(DeviceMath& math) noexcept;
  ~MathStandIn();
  MathStandIn(const MathStandIn&) = delete;
  MathStandIn& operator=(const MathStandIn&) = delete;
};

/// Enqueues it behind the device's current stream, by a plan that this thread keeps, with a
/// workspace of the caching allocator. Returns false and does nothing for a product that the
/// library has only without its epilogue.
[[nodiscard]] bool run(DeviceMath& math, const char* name, const ColumnMajorProduct& product,
                       const ProductAddresses& at, Device device);
/// Whether the library has it.
[[nodiscard]] bool has_plan(DeviceMath& math, const char* name, const Convolution& convolution,
                            Device device);
/// Returns false and does nothing for a convolution of 16 bits, or an attention, that the library
/// lacks.
[[nodiscard]] bool run(DeviceMath& math, const char* name, const Convolution& convolution,
                       const ConvolutionAddresses& at, Device device);
[[nodiscard]] bool run(DeviceMath& math, const char* name, const Attention& attention,
                       const AttentionAddresses& at, Device device);

/// cuBLASLt and cuDNN; null in a build without CUDA.
[[nodiscard]] DeviceMath* cuda_math() noexcept;

}  // namespace lockstep::math
