#include <support/gpu_stand_in.hpp>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>
#include <numbers>
#include <type_traits>
#include <vector>

#include <lockstep/tensor/dispatch_dtype.hpp>
#include <lockstep/tensor/runtime/launch.hpp>

namespace lockstep::test {
namespace {

std::atomic<int> plans_made = 0, plans_run = 0, attentions_run = 0, narrow_convolutions_run = 0,
                 convolutions_with_channels_last = 0, products_run_with_gelu = 0,
                 products_run_with_ragged_rows = 0;

using math::Attention;
using math::AttentionPass;
using math::ColumnMajorProduct;
using math::Convolution;
using math::ConvolutionPass;
using math::Epilogue;

/// Element (row, column) as the product reads it.
template <class T>
double element(const ColumnMajorProduct::Matrix& m, const void* data, std::int64_t number,
               std::int64_t row, std::int64_t column) {
  const auto* const matrix = static_cast<const T*>(data) + number * m.batch;
  return static_cast<double>(m.transposed ? matrix[column + row * m.stride]
                                          : matrix[row + column * m.stride]);
}

bool is_of_gelu(const ColumnMajorProduct& p) {
  return p.epilogue == Epilogue::add_bias_gelu || p.epilogue == Epilogue::gelu_slope;
}

bool has_ragged_rows(const ColumnMajorProduct& p) {
  const auto is_ragged = [](const ColumnMajorProduct::Matrix& m, DType dtype) {
    return is_half(dtype) && m.stride * static_cast<std::int64_t>(size_of(dtype)) % 16 != 0;
  };
  return is_ragged(p.left, p.operands) || is_ragged(p.right, p.operands) ||
         is_ragged(p.result, p.results);
}

struct GeluAt {
  double value, slope;
};
/// By tanh, as libraries compute it.
GeluAt gelu(double x) {
  const double factor = std::sqrt(2 / std::numbers::pi);
  const double t = std::tanh(factor * (x + 0.044715 * x * x * x));
  const double inner = factor * (1 + 3 * 0.044715 * x * x);
  return {0.5 * x * (1 + t), 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * inner};
}

/// T is the type of the operands, C that of the result.
template <class T, class C>
void multiply(const ColumnMajorProduct& p, const math::ProductAddresses& at) {
  C* const vector = static_cast<C*>(at.vector);
  for (std::int64_t column = 0; p.epilogue == Epilogue::sum_right && column < p.columns; ++column) {
    double sum = 0;
    for (std::int64_t t = 0; t < p.terms; ++t) sum += element<T>(p.right, at.right, 0, t, column);
    vector[column] = static_cast<C>(static_cast<SumOf<T>>(sum));
  }
  for (std::int64_t i = 0; i < p.count; ++i) {
    for (std::int64_t column = 0; column < p.columns; ++column) {
      for (std::int64_t row = 0; row < p.rows; ++row) {
        C& to = static_cast<C*>(at.result)[i * p.result.batch + row + column * p.result.stride];
        double sum = p.accumulate ? static_cast<double>(to) : 0.0;
        for (std::int64_t t = 0; t < p.terms; ++t) {
          sum +=
              element<T>(p.left, at.left, i, row, t) * element<T>(p.right, at.right, i, t, column);
        }
        if (p.epilogue == Epilogue::add_bias || p.epilogue == Epilogue::add_bias_gelu) {
          sum += static_cast<double>(vector[row]);
        }
        if (is_of_gelu(p)) {
          C& second = static_cast<C*>(at.second)[row + column * p.second.stride];
          if (p.epilogue == Epilogue::gelu_slope) {
            sum *= gelu(static_cast<double>(second)).slope;
          } else {
            second = static_cast<C>(static_cast<SumOf<T>>(sum));
            sum = gelu(sum).value;
          }
        }
        to = static_cast<C>(static_cast<SumOf<T>>(sum));
      }
    }
  }
}

/// Calls f(place in x, in the weight, in y) for each product that a convolution sums.
template <class F>
void for_each_term(const Convolution& c, const F& f) {
  const auto dims = static_cast<std::size_t>(c.dims);
  std::int64_t windows = 1, taps = 1;
  for (std::size_t d = 0; d < dims; ++d) {
    windows *= c.y[d + 2];
    taps *= c.weight[d + 2];
  }
  const std::int64_t outputs = c.weight[0] / c.groups, inputs = c.weight[1];
  for (std::int64_t window = 0; window < windows; ++window) {
    for (std::int64_t tap = 0; tap < taps; ++tap) {
      std::int64_t in_x = 0, in_y = 0, window_left = window, tap_left = tap;
      bool inside = true;
      for (std::size_t d = dims; d-- > 0;) {
        const std::int64_t at_y = window_left % c.y[d + 2], at_tap = tap_left % c.weight[d + 2];
        window_left /= c.y[d + 2];
        tap_left /= c.weight[d + 2];
        const std::int64_t at_x = at_y * c.stride[d] - c.padding[d] + at_tap * c.dilation[d];
        inside = inside && at_x >= 0 && at_x < c.x[d + 2];
        in_x += at_x * c.x_strides[d + 2];
        in_y += at_y * c.y_strides[d + 2];
      }
      if (!inside) continue;
      for (std::int64_t n = 0; n < c.x[0]; ++n) {
        for (std::int64_t o = 0; o < c.weight[0]; ++o) {
          const std::int64_t x = in_x + n * c.x_strides[0] + o / outputs * inputs * c.x_strides[1];
          const std::int64_t y = in_y + n * c.y_strides[0] + o * c.y_strides[1];
          for (std::int64_t i = 0; i < inputs; ++i) {
            const std::int64_t w =
                c.channels_last ? (o * taps + tap) * inputs + i : (o * inputs + i) * taps + tap;
            f(x + i * c.x_strides[1], w, y);
          }
        }
      }
    }
  }
}

std::int64_t numel(const Convolution& c, const std::array<int, 5>& extents) {
  std::int64_t n = 1;
  for (std::size_t d = 0; d < static_cast<std::size_t>(c.dims) + 2; ++d) n *= extents[d];
  return n;
}

template <class T>
void convolve(const Convolution& c, const math::ConvolutionAddresses& at) {
  const auto *const first = static_cast<const T*>(at.first), *const second =
                                                                 static_cast<const T*>(at.second);
  auto* const result = static_cast<T*>(at.result);
  const auto& extents = c.pass == ConvolutionPass::forward          ? c.y
                        : c.pass == ConvolutionPass::backward_input ? c.x
                                                                    : c.weight;
  std::vector<double> sums(static_cast<std::size_t>(numel(c, extents)));
  const auto add = [&](std::int64_t to, T a, T b) {
    sums[static_cast<std::size_t>(to)] += static_cast<double>(a) * static_cast<double>(b);
  };
  for_each_term(c, [&](std::int64_t x, std::int64_t w, std::int64_t y) {
    switch (c.pass) {
      case ConvolutionPass::forward:
        return add(y, first[x], second[w]);
      case ConvolutionPass::backward_input:
        return add(x, first[y], second[w]);
      case ConvolutionPass::backward_weight:
        return add(w, first[y], second[x]);
    }
  });
  for (std::size_t i = 0; i < sums.size(); ++i) {
    const double sum = (c.accumulate ? static_cast<double>(result[i]) : 0.0) + sums[i];
    result[i] = static_cast<T>(static_cast<SumOf<T>>(sum));
  }
}

void compute(const ColumnMajorProduct& p, const math::ProductAddresses& at) {
  dispatch_stored(p.operands, "stand-in", [&]<class T>() {
    if (p.results == p.operands) {
      multiply<T, T>(p, at);
    } else {
      multiply<T, SumOf<T>>(p, at);
    }
  });
}
void compute(const Convolution& c, const math::ConvolutionAddresses& at) {
  dispatch_stored(c.dtype, "stand-in", [&]<class T>() { convolve<T>(c, at); });
}

/// The rows of one head, [rows, width].
template <class T>
struct Rows {
  T* data;
  std::int64_t stride;

  template <class Address>
  Rows(Address* address, const Attention::Strides& strides, std::int64_t b, std::int64_t h)
      : data(static_cast<T*>(address) + b * strides.batch + h * strides.head),
        stride(strides.row) {}
  T& operator()(std::int64_t row, std::int64_t c) const { return data[row * stride + c]; }
};

template <class A, class B>
double dot(const Rows<A>& a, std::int64_t i, const Rows<B>& b, std::int64_t j, std::int64_t width) {
  double sum = 0;
  for (std::int64_t c = 0; c < width; ++c) {
    sum += static_cast<double>(a(i, c)) * static_cast<double>(b(j, c));
  }
  return sum;
}

/// As a library multiplies it.
template <class T>
double rounded(double x) {
  return static_cast<double>(T(static_cast<float>(x)));
}

/// The biases of a sample's keys.
struct KeyBias {
  const float* data;

  KeyBias(const Attention& a, const math::AttentionAddresses& at, std::int64_t b)
      : data(a.key_bias_row == 0 ? nullptr
                                 : static_cast<const float*>(at.key_bias) + b * a.key_bias_row) {}
  double operator()(std::int64_t key) const {
    return data == nullptr ? 0.0 : static_cast<double>(data[key]);
  }
};

template <class T>
void attend(const Attention& a, const math::AttentionAddresses& at, std::int64_t b,
            std::int64_t h) {
  const std::int64_t group = h / a.group_heads;
  const Rows<const T> q(at.q, a.q, b, h), k(at.k, a.k, b, group), v(at.v, a.v, b, group);
  const Rows<T> out(at.out, a.out, b, h);
  const KeyBias bias(a, at, b);
  float* const log_sums = static_cast<float*>(at.log_sum) + (b * a.heads + h) * a.queries;
  for (std::int64_t t = 0; t < a.queries; ++t) {
    const std::int64_t seen = a.causal ? std::min(t + 1, a.keys) : a.keys;
    std::vector<double> p(static_cast<std::size_t>(seen));
    double largest = -std::numeric_limits<double>::infinity(), sum = 0;
    for (std::int64_t s = 0; s < seen; ++s) {
      const double score = a.scale * dot(q, t, k, s, a.width) + bias(s);
      p[static_cast<std::size_t>(s)] = score;
      largest = std::max(largest, score);
    }
    for (double& x : p) sum += x = std::exp(x - largest);
    log_sums[t] = static_cast<float>(largest + std::log(sum));
    for (std::int64_t c = 0; c < a.width; ++c) {
      double y = 0;
      for (std::int64_t s = 0; s < seen; ++s) {
        y += rounded<T>(p[static_cast<std::size_t>(s)]) * static_cast<double>(v(s, c));
      }
      out(t, c) = T(static_cast<float>(y / sum));
    }
  }
}

/// The query heads of a group, [group * group_heads, (group + 1) * group_heads).
template <class T>
void attend_backward(const Attention& a, const math::AttentionAddresses& at, std::int64_t b,
                     std::int64_t group) {
  const Rows<const T> k(at.k, a.k, b, group), v(at.v, a.v, b, group);
  const KeyBias bias(a, at, b);
  const auto zeros = [&](std::int64_t rows) {
    return std::vector<double>(static_cast<std::size_t>(rows * a.width));
  };
  const auto place = [&](std::int64_t row, std::int64_t c) {
    return static_cast<std::size_t>(row * a.width + c);
  };
  const auto write = [&](const std::vector<double>& from, std::int64_t rows, const Rows<T>& to) {
    for (std::int64_t t = 0; t < rows; ++t) {
      for (std::int64_t c = 0; c < a.width; ++c) {
        to(t, c) = T(static_cast<float>(from[place(t, c)]));
      }
    }
  };
  std::vector<double> dk = zeros(a.keys), dv = zeros(a.keys);
  for (std::int64_t h = group * a.group_heads; h < (group + 1) * a.group_heads; ++h) {
    const Rows<const T> q(at.q, a.q, b, h), out(at.out, a.out, b, h),
        grad_out(at.grad_out, a.grad_out, b, h);
    const auto* const log_sums =
        static_cast<const float*>(at.log_sum) + (b * a.heads + h) * a.queries;
    std::vector<double> dq = zeros(a.queries);
    for (std::int64_t t = 0; t < a.queries; ++t) {
      const double common = dot(grad_out, t, out, t, a.width);
      for (std::int64_t s = 0; s < (a.causal ? std::min(t + 1, a.keys) : a.keys); ++s) {
        const double score = a.scale * dot(q, t, k, s, a.width) + bias(s);
        const double p = std::exp(score - static_cast<double>(log_sums[t]));
        const double ds = rounded<T>(p * (dot(grad_out, t, v, s, a.width) - common));
        for (std::int64_t c = 0; c < a.width; ++c) {
          dv[place(s, c)] += rounded<T>(p) * static_cast<double>(grad_out(t, c));
          dq[place(t, c)] += a.scale * ds * static_cast<double>(k(s, c));
          dk[place(s, c)] += a.scale * ds * static_cast<double>(q(t, c));
        }
      }
    }
    write(dq, a.queries, {at.grad_q, a.grad_q, b, h});
  }
  write(dk, a.keys, {at.grad_k, a.grad_k, b, group});
  write(dv, a.keys, {at.grad_v, a.grad_v, b, group});
}

void compute(const Attention& a, const math::AttentionAddresses& at) {
  dispatch_stored(a.dtype, "stand-in", [&]<class T>() {
    if constexpr (sizeof(T) == 2) {
      for (std::int64_t b = 0; b < a.batch; ++b) {
        if (a.pass == AttentionPass::forward) {
          for (std::int64_t h = 0; h < a.heads; ++h) attend<T>(a, at, b, h);
        } else {
          for (std::int64_t g = 0; g < a.heads / a.group_heads; ++g) {
            attend_backward<T>(a, at, b, g);
          }
        }
      }
    }
  });
}

template <class Problem, class Addresses>
class LatePlan final : public math::Plan<Addresses> {
 public:
  explicit LatePlan(const Problem& problem) : problem_(problem) { ++plans_made; }

  [[nodiscard]] std::size_t workspace_bytes() const noexcept override { return 1000; }

  void run(const char* /*name*/, const Addresses& at, void* workspace,
           const Stream& stream) override {
    ++plans_run;
    if constexpr (std::is_same_v<Problem, ColumnMajorProduct>) {
      if (is_of_gelu(problem_)) ++products_run_with_gelu;
      if (has_ragged_rows(problem_)) ++products_run_with_ragged_rows;
    }
    if constexpr (std::is_same_v<Problem, Attention>) ++attentions_run;
    if constexpr (std::is_same_v<Problem, Convolution>) {
      if (is_half(problem_.dtype)) ++narrow_convolutions_run;
      if (problem_.channels_last) ++convolutions_with_channels_last;
    }
    const detail::LaunchScope scope(stream);
    const auto late = [problem = problem_, at, workspace, bytes = workspace_bytes()] {
      std::memset(workspace, 0x5A, bytes);
      compute(problem, at);
    };
    detail::launch_late("stand_in", LateCall::of(late));
  }

 private:
  Problem problem_;
};

class PlainLoops final : public math::DeviceMath {
 public:
  [[nodiscard]] std::unique_ptr<math::ProductPlan> plan(const char* /*name*/,
                                                        const ColumnMajorProduct& product,
                                                        Device /*device*/) override {
    // A library may support an epilogue for some extents of its vector only.
    const bool has_odd_vector =
        (product.epilogue == Epilogue::add_bias && product.rows % 2 == 1) ||
        (product.epilogue == Epilogue::sum_right && product.columns % 2 == 1);
    if (has_odd_vector) return nullptr;
    if (is_of_gelu(product) && product.terms % 2 == 1) return nullptr;
    return std::make_unique<LatePlan<ColumnMajorProduct, math::ProductAddresses>>(product);
  }
  [[nodiscard]] std::unique_ptr<math::ConvolutionPlan> plan(const char* /*name*/,
                                                            const Convolution& convolution,
                                                            Device /*device*/) override {
    // A library may have no deterministic algorithm for some in 16 bits.
    if (is_half(convolution.dtype) && convolution.dilation[0] > 1) return nullptr;
    return std::make_unique<LatePlan<Convolution, math::ConvolutionAddresses>>(convolution);
  }
  [[nodiscard]] std::unique_ptr<math::FusedAttentionPlan> plan(const char* /*name*/,
                                                               const Attention& a,
                                                               Device /*device*/) override {
    // As cuDNN on an H100.
    if (a.alignment < 16 || a.width % 8 != 0 || a.width > 256 ||
        (a.queries == 1 && (a.pass == AttentionPass::backward || a.group_heads > 1))) {
      return nullptr;
    }
    return std::make_unique<LatePlan<Attention, math::AttentionAddresses>>(a);
  }

  static PlainLoops& instance() {
    static PlainLoops math;
    return math;
  }
};

}  // namespace

GpuStandIn::GpuStandIn() : serves_(PlainLoops::instance()) {}

int GpuStandIn::plans() { return plans_made; }
int GpuStandIn::runs() { return plans_run; }
int GpuStandIn::attentions() { return attentions_run; }
int GpuStandIn::narrow_convolutions() { return narrow_convolutions_run; }
int GpuStandIn::products_with_gelu() { return products_run_with_gelu; }
int GpuStandIn::products_with_ragged_rows() { return products_run_with_ragged_rows; }
int GpuStandIn::channels_last() { return convolutions_with_channels_last; }

}  // namespace lockstep::test
