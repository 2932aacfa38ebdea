#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <dnnl.hpp>

#include <lockstep/base/error.hpp>
#include <lockstep/tensor/kernels/conv/channel_blocks.hpp>
#include <lockstep/tensor/kernels/conv/conv2d_methods.hpp>
#include <lockstep/tensor/math/narrow_product.hpp>
#include <lockstep/tensor/math/onednn.hpp>
#include <lockstep/tensor/math/plan_cache.hpp>
#include <lockstep/tensor/math_libraries.hpp>
#include <lockstep/tensor/precision.hpp>

namespace lockstep::detail::onednn {
namespace {

using dnnl::memory;
using Tag = memory::format_tag;

/// Pieces of the workspace, each aligned to 64 bytes.
class Pieces {
 public:
  /// The offset of a new piece.
  std::size_t add(std::size_t bytes) {
    const std::size_t offset = bytes_;
    bytes_ += (bytes + 63) / 64 * 64;
    return offset;
  }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

 private:
  std::size_t bytes_ = 0;
};

/// One operand of a convolution: Lockstep's array, the primitive's layout, and the reorders between
/// them. With a `rounding` other than f32 the elements are first rounded to that type and stay f32.
class Operand {
 public:
  Operand(const memory::desc& ours, const memory::desc& theirs, bool is_result, Precision rounding,
          Pieces& pieces)
      : same_(ours == theirs),
        rounding_(is_result ? Precision::f32 : rounding),
        outside_(ours, cpu(), DNNL_MEMORY_NONE),
        inside_(theirs, cpu(), DNNL_MEMORY_NONE),
        offset_(same_ && !is_result ? 0 : pieces.add(theirs.get_size())) {
    to_inside_ = dnnl::reorder(outside_, inside_);
    to_outside_ = dnnl::reorder(inside_, outside_);
    if (!is_result) return;
    dnnl::primitive_attr add;
    dnnl::post_ops sum;
    sum.append_sum();
    add.set_post_ops(sum);
    add_to_outside_ = dnnl::reorder(dnnl::reorder::primitive_desc(inside_, outside_, add));
  }

  /// The memory to give to the primitive for reading `data`.
  dnnl_memory_t read(const float* data, std::byte* workspace) {
    if (rounding_ != Precision::f32) {
      const auto size = static_cast<std::int64_t>(outside_.get_desc().get_size() / sizeof(float));
      data = math::rounded_elements({data, size}, 1, size, rounding_, rounded_).data;
    }
    outside_.set_data_handle(const_cast<float*>(data), stream());  // NOLINT: no const memory
    if (same_) return outside_.get();
    inside_.set_data_handle(workspace + offset_, stream());
    move(to_inside_, outside_, inside_);
    return inside_.get();
  }
  /// The memory to give to the primitive for writing; then finish_write() with the same arguments.
  dnnl_memory_t begin_write(float* data, bool accumulate, std::byte* workspace) {
    outside_.set_data_handle(data, stream());
    if (same_ && !accumulate) return outside_.get();
    inside_.set_data_handle(workspace + offset_, stream());
    return inside_.get();
  }
  void finish_write(bool accumulate) {
    if (same_ && !accumulate) return;
    move(accumulate ? add_to_outside_ : to_outside_, inside_, outside_);
  }

 private:
  static void move(const dnnl::reorder& reorder, const memory& from, const memory& to) {
    execute(reorder,
            std::array<dnnl_exec_arg_t, 2>{{{DNNL_ARG_FROM, from.get()}, {DNNL_ARG_TO, to.get()}}},
            "conv2d");
  }

  bool same_;
  Precision rounding_;
  memory outside_, inside_;
  std::size_t offset_;
  std::vector<float> rounded_;
  dnnl::reorder to_inside_, to_outside_, add_to_outside_;
};

enum class Pass { forward, backward_input, backward_weight };

/// oneDNN's descriptors for the operands of a problem: in Lockstep's layouts, or in the layout that
/// oneDNN prefers.
struct Descriptions {
  memory::dims x, weight, bias, y;
  memory::dims stride, padding, dilation;
  Tag x_tag, weight_tag, y_tag;

  explicit Descriptions(const Conv2dProblem& p)
      : x{p.n, p.c, p.h, p.w},
        weight{p.o, p.c, p.kh, p.kw},
        bias{p.o},
        y{p.n, p.o, p.oh, p.ow},
        stride(p.options.stride.begin(), p.options.stride.end()),
        padding(p.options.padding.begin(), p.options.padding.end()),
        dilation{p.options.dilation[0] - 1, p.options.dilation[1] - 1},
        x_tag(tag_of(p.x_blocked)),
        weight_tag(Tag::oihw),
        y_tag(tag_of(p.y_blocked)) {
    if (p.is_3d) {
      const auto insert = [](memory::dims& dims, std::ptrdiff_t place, std::int64_t extent) {
        dims.insert(dims.begin() + place, extent);
      };
      insert(x, 2, p.depth.d);
      insert(weight, 2, p.depth.kd);
      insert(y, 2, p.depth.od);
      insert(stride, 0, p.depth.stride);
      insert(padding, 0, p.depth.padding);
      insert(dilation, 0, p.depth.dilation - 1);
      x_tag = y_tag = Tag::ncdhw;
      weight_tag = Tag::oidhw;
    }
    const auto groups = p.options.groups;
    if (groups == 1) return;
    weight[0] = p.o / groups;
    weight[1] = p.c / groups;
    weight.insert(weight.begin(), groups);
    weight_tag = p.is_3d ? Tag::goidhw : Tag::goihw;
  }
  static Tag tag_of(bool blocked) {
    if (!blocked) return Tag::nchw;
    return channel_block() == 16 ? Tag::nChw16c : Tag::nChw8c;
  }
  static memory::desc of(const memory::dims& dims, Tag tag,
                         memory::data_type type = memory::data_type::f32) {
    return {dims, type, tag};
  }
};

// Winograd's algorithm, F(4 x 4, 3 x 3) (Lavin and Gray 2016, arXiv:1509.09308), where it is
// faster. Measured on one Zen 5 core, 32 samples, ms direct and Winograd: 64 channels of 32 x 32
// forward 9.5 and 4.9, input gradient 10.2 and 5.0, weight gradient 10.8 and 7.7; 256 channels of 8
// x 8 9.2 and 4.6, 10.3 and 4.9, 9.8 and 4.6; 512 channels of 4 x 4 9.3 and 9.0, 7.5 and 10.2, 11.1
// and 6.3. Its relative error (L2, against f64) is 1e-6, that of direct convolution 2e-7; for the
// weight gradient 5e-7, and 1e-7 to 1e-6.
bool winograd_is_faster(const Conv2dProblem& p, Pass pass, Precision precision) {
  constexpr std::int64_t least_channels = 64, least_pixels = 64;
  return precision == Precision::f32 && !p.is_3d && p.kh == 3 && p.kw == 3 &&
         p.options.stride == 1 && p.options.padding == 1 && p.options.dilation == 1 &&
         p.options.groups == 1 && p.c >= least_channels && p.o >= least_channels &&
         (pass == Pass::backward_weight || p.oh * p.ow >= least_pixels);
}

/// Output channels that one plan computes: all of them, except 128 for Winograd's weight gradients
/// of images of one tile. There the transformed weights fill the scratchpad. Measured on one Zen 5
/// core, 512 channels of 4 x 4, all at once and in parts: 8, 32, 64 and 128 samples in 4.8 and 2.2,
/// 6.4 and 5.2, 10.4 and 9.8, 16.5 and 20.2 ms, with 81 to 98 and 27 to 37 MiB. Larger images would
/// lose more time (12 to 16 %) and gain less memory.
std::int64_t outputs_of_a_plan(const Conv2dProblem& p, Pass pass, Precision precision) {
  constexpr std::int64_t part = 128, tile = 16;
  const bool in_parts = pass == Pass::backward_weight && winograd_is_faster(p, pass, precision) &&
                        channel_block() == 16 && p.oh * p.ow <= tile && p.o % part == 0;
  return in_parts ? part : p.o;
}

/// False if some tap of the kernel meets only padding. The weight's gradient there is 0, but oneDNN
/// 2.6.3 leaves uninitialised memory there in bf16.
bool each_tap_meets_input(const Conv2dProblem& p) {
  const auto meets = [](std::int64_t in, std::int64_t taps, std::int64_t out, std::int64_t stride,
                        std::int64_t padding, std::int64_t dilation) {
    return (out - 1) * stride >= padding && (taps - 1) * dilation - padding < in;
  };
  const auto& [stride, padding, dilation, groups] = p.options;
  const auto& d = p.depth;
  return meets(p.h, p.kh, p.oh, stride[0], padding[0], dilation[0]) &&
         meets(p.w, p.kw, p.ow, stride[1], padding[1], dilation[1]) &&
         (!p.is_3d || meets(d.d, d.kd, d.od, d.stride, d.padding, d.dilation));
}

/// True if threads only divide the results among them, and each result is the sum that one thread
/// would form. This holds for direct convolutions, except for the weight gradient, which adds up
/// the threads' sums. Winograd's algorithm chooses the length of its sums by the number of threads,
/// and im2col's matrix products divide sums.
bool threads_only_divide(Pass pass, std::string_view implementation) {
  const auto is = [&](std::string_view name) { return implementation.starts_with(name); };
  return pass != Pass::backward_weight &&
         (is("jit:") || is("jit_1x1:") || is("jit_dw:") || is("jit_bf16:") || is("jit_bf16_1x1:"));
}

/// A convolution in one direction, ready to run: two inputs (and a bias), one output. It computes
/// outputs_of_a_plan() output channels, from `first_output` on.
class Plan {
 public:
  Plan(const Conv2dProblem& problem, Pass pass, Precision precision, bool has_bias,
       std::int64_t first_output, int threads)
      : problem_(problem),
        pass_(pass),
        precision_(precision),
        narrow_(precision != Precision::f32 && has_units_for(precision) &&
                (pass != Pass::backward_weight || each_tap_meets_input(problem))),
        has_bias_(has_bias),
        first_output_(first_output),
        threads_(threads) {
    {
      const OneMathThread one_thread;
      make_fastest();
    }
    one_thread_ = !threads_only_divide(pass, implementation_);
    if (threads > 1 && !one_thread_) make_fastest();
  }

  [[nodiscard]] bool serves(const Conv2dProblem& problem, Pass pass, Precision precision,
                            bool has_bias, std::int64_t first_output, int threads) const {
    return pass_ == pass && precision_ == precision && has_bias_ == has_bias &&
           first_output_ == first_output && threads_ == threads && problem_ == problem;
  }

  void run(const float* first, const float* second, const float* bias, bool accumulate,
           float* result) {
    struct Arguments {
      int first, second, result;
    };
    const Arguments a = pass_ == Pass::forward
                            ? Arguments{DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST}
                        : pass_ == Pass::backward_input
                            ? Arguments{DNNL_ARG_DIFF_DST, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_SRC}
                            : Arguments{DNNL_ARG_DIFF_DST, DNNL_ARG_SRC, DNNL_ARG_DIFF_WEIGHTS};
    std::byte* const memory = workspace(pieces_.bytes());
    scratchpad_.set_data_handle(memory + scratchpad_offset_, stream());
    std::array<dnnl_exec_arg_t, 4> arguments{
        {{a.first, first_->read(first, memory)},
         {a.second, second_->read(second, memory)},
         {a.result, result_->begin_write(result, accumulate, memory)},
         {DNNL_ARG_SCRATCHPAD, scratchpad_.get()}}};
    std::optional<OneMathThread> one_thread;
    if (one_thread_) one_thread.emplace();
    if (has_bias_) {
      bias_.set_data_handle(const_cast<float*>(bias), stream());  // NOLINT: no const memory
      std::array<dnnl_exec_arg_t, 5> with_bias{};
      std::copy(arguments.begin(), arguments.end(), with_bias.begin());
      with_bias.back() = {DNNL_ARG_BIAS, bias_.get()};
      execute(primitive_, with_bias, "conv2d");
    } else {
      execute(primitive_, arguments, "conv2d");
    }
    one_thread.reset();
    result_->finish_write(accumulate);
  }

 private:
  void make_fastest() {
    if (winograd_is_faster(problem_, pass_, precision_)) {
      try {
        make(dnnl::algorithm::convolution_winograd);
        return;
      } catch (const dnnl::error& error) {
        if (error.status != dnnl_unimplemented) throw;  // it needs AVX-512
      }
    }
    make(dnnl::algorithm::convolution_direct);
  }

  void make(dnnl::algorithm algorithm) {
    Descriptions d(problem_);
    using Type = memory::data_type;
    const auto any = [&](const memory::dims& dims, bool is_result = false) {
      return Descriptions::of(dims, Tag::any, narrow_ && !is_result ? Type::bf16 : Type::f32);
    };
    const auto x = Descriptions::of(d.x, d.x_tag);
    auto y = Descriptions::of(d.y, d.y_tag), weight = Descriptions::of(d.weight, d.weight_tag);
    if (const auto part = outputs_of_a_plan(problem_, pass_, precision_); part < problem_.o) {
      d.y[1] = d.weight[0] = part;
      y = y.submemory_desc(d.y, {0, first_output_, 0, 0});
      weight = weight.submemory_desc(d.weight, {first_output_, 0, 0, 0});
    }
    const auto bias = has_bias_ ? Descriptions::of(d.bias, Tag::x) : memory::desc();
    const dnnl::convolution_forward::primitive_desc forward(
        {dnnl::prop_kind::forward_training, algorithm, any(d.x), any(d.weight), bias,
         any(d.y, pass_ == Pass::forward), d.stride, d.dilation, d.padding, d.padding},
        scratchpad_is_ours(), cpu());
    if (pass_ == Pass::forward) {
      adopt(forward, x, forward.src_desc(), weight, forward.weights_desc(), y, forward.dst_desc());
      primitive_ = dnnl::convolution_forward(forward);
      if (has_bias_) bias_ = memory(bias, cpu(), DNNL_MEMORY_NONE);
    } else if (pass_ == Pass::backward_input) {
      const dnnl::convolution_backward_data::primitive_desc backward(
          {algorithm, any(d.x, true), any(d.weight), any(d.y), d.stride, d.dilation, d.padding,
           d.padding},
          scratchpad_is_ours(), cpu(), forward);
      adopt(backward, y, backward.diff_dst_desc(), weight, backward.weights_desc(), x,
            backward.diff_src_desc());
      primitive_ = dnnl::convolution_backward_data(backward);
    } else {
      const dnnl::convolution_backward_weights::primitive_desc backward(
          {algorithm, any(d.x), any(d.weight, true), any(d.y), d.stride, d.dilation, d.padding,
           d.padding},
          scratchpad_is_ours(), cpu(), forward);
      adopt(backward, y, backward.diff_dst_desc(), x, backward.src_desc(), weight,
            backward.diff_weights_desc());
      primitive_ = dnnl::convolution_backward_weights(backward);
    }
  }

  template <class PrimitiveDesc>
  void adopt(const PrimitiveDesc& chosen, const memory::desc& first,
             const memory::desc& first_theirs, const memory::desc& second,
             const memory::desc& second_theirs, const memory::desc& result,
             const memory::desc& result_theirs) {
    pieces_ = {};
    const Precision rounding = narrow_ ? Precision::f32 : precision_;
    first_ = std::make_unique<Operand>(first, first_theirs, false, rounding, pieces_);
    second_ = std::make_unique<Operand>(second, second_theirs, false, rounding, pieces_);
    result_ = std::make_unique<Operand>(result, result_theirs, true, rounding, pieces_);
    scratchpad_offset_ = pieces_.add(chosen.scratchpad_desc().get_size());
    scratchpad_ = memory(chosen.scratchpad_desc(), cpu(), DNNL_MEMORY_NONE);
    implementation_ = chosen.impl_info_str();
  }

  Conv2dProblem problem_;
  Pass pass_;
  Precision precision_;  ///< of the operands
  bool narrow_;          ///< operands are passed to oneDNN as 16-bit numbers, not as rounded f32
  bool has_bias_;
  std::int64_t first_output_;
  int threads_;
  std::string implementation_;  ///< oneDNN's name of the implementation
  bool one_thread_ = true;
  dnnl::primitive primitive_;
  std::unique_ptr<Operand> first_, second_, result_;
  Pieces pieces_;
  std::size_t scratchpad_offset_ = 0;
  memory scratchpad_, bias_;
};

/// This thread's plan for a problem, made at the first call.
Plan& plan_for(const Conv2dProblem& problem, Pass pass, bool has_bias,
               std::int64_t first_output = 0) {
  thread_local detail::PlanCache<Plan> plans;
  const int threads = math_threads();
  const Precision precision = product_precision();
  return plans.find_or_make(
      [&](const Plan& plan) {
        return plan.serves(problem, pass, precision, has_bias, first_output, threads);
      },
      [&] {
        try {
          return std::make_unique<Plan>(problem, pass, precision, has_bias, first_output, threads);
        } catch (const dnnl::error& error) {
          throw Error("conv2d: oneDNN cannot compute this convolution: " +
                      std::string(error.what()));
        }
      });
}

}  // namespace

void forward(const Conv2dProblem& problem, const float* x, const float* weight, const float* bias,
             float* y) {
  plan_for(problem, Pass::forward, bias != nullptr).run(x, weight, bias, false, y);
}

void backward_input(const Conv2dProblem& problem, const float* grad_y, const float* weight,
                    bool accumulate, float* grad_x) {
  plan_for(problem, Pass::backward_input, false).run(grad_y, weight, nullptr, accumulate, grad_x);
}

void backward_weight(const Conv2dProblem& problem, const float* grad_y, const float* x,
                     bool accumulate, float* grad_weight) {
  const std::int64_t step = outputs_of_a_plan(problem, Pass::backward_weight, product_precision());
  for (std::int64_t first = 0; first < problem.o; first += step) {
    plan_for(problem, Pass::backward_weight, false, first)
        .run(grad_y, x, nullptr, accumulate, grad_weight);
  }
}

}  // namespace lockstep::detail::onednn
