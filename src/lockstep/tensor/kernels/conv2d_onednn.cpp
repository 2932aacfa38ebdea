#include <array>
#include <memory>
#include <string>
#include <vector>

#include <dnnl.hpp>

#include <lockstep/base/error.hpp>
#include <lockstep/tensor/kernels/conv2d_methods.hpp>

namespace lockstep::detail::onednn {
namespace {

using dnnl::memory;
using Tag = memory::format_tag;

dnnl::engine& cpu() {
  static dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

dnnl::stream& stream() {
  thread_local dnnl::stream stream(cpu());
  return stream;
}

/// Runs a primitive through the C interface: the C++ one builds a hash map for its arguments.
template <std::size_t N>
void execute(const dnnl::primitive& primitive, const std::array<dnnl_exec_arg_t, N>& arguments) {
  const auto status = dnnl_primitive_execute(primitive.get(), stream().get(), static_cast<int>(N),
                                             arguments.data());
  if (status != dnnl_success) {
    throw Error("conv2d: oneDNN failed to run a primitive (status " + std::to_string(status) + ")");
  }
}

/// A oneDNN memory that we own, filled by primitives only.
struct OwnMemory {
  Tensor bytes;
  memory handle;

  explicit OwnMemory(const memory::desc& desc)
      : bytes(Tensor::zeros({static_cast<std::int64_t>(desc.get_size())}, DType::u8)),
        handle(desc, cpu(), bytes.data()) {}
};

/// One operand of a convolution: our row-major array on one side, what the primitive wants on the
/// other, and the reorders between them.
class Operand {
 public:
  Operand(const memory::desc& ours, const memory::desc& theirs)
      : same_(ours == theirs), outside_(ours, cpu(), DNNL_MEMORY_NONE), inside_(theirs) {
    to_inside_ = dnnl::reorder(outside_, inside_.handle);
    to_outside_ = dnnl::reorder(inside_.handle, outside_);
    dnnl::primitive_attr add;
    dnnl::post_ops sum;
    sum.append_sum();
    add.set_post_ops(sum);
    add_to_outside_ = dnnl::reorder(dnnl::reorder::primitive_desc(inside_.handle, outside_, add));
  }

  /// The memory to give to the primitive for reading `data`.
  dnnl_memory_t read(const float* data) {
    point_to(const_cast<float*>(data));  // NOLINT: oneDNN has no const memory
    if (same_) return outside_.get();
    move(to_inside_, outside_, inside_.handle);
    return inside_.handle.get();
  }
  /// The memory to give to the primitive for writing; then finish_write() with the same arguments.
  dnnl_memory_t begin_write(float* data, bool accumulate) {
    point_to(data);
    return same_ && !accumulate ? outside_.get() : inside_.handle.get();
  }
  void finish_write(bool accumulate) {
    if (same_ && !accumulate) return;
    move(accumulate ? add_to_outside_ : to_outside_, inside_.handle, outside_);
  }

 private:
  void point_to(void* data) { outside_.set_data_handle(data, stream()); }
  static void move(const dnnl::reorder& reorder, const memory& from, const memory& to) {
    execute(reorder,
            std::array<dnnl_exec_arg_t, 2>{{{DNNL_ARG_FROM, from.get()}, {DNNL_ARG_TO, to.get()}}});
  }

  bool same_;
  memory outside_;
  OwnMemory inside_;
  dnnl::reorder to_inside_, to_outside_, add_to_outside_;
};

enum class Pass { forward, backward_input, backward_weight };

/// How oneDNN describes the operands of a problem in our layouts, or leaving the layout to it.
struct Descriptions {
  memory::dims x, weight, bias, y;
  memory::dims stride, padding, dilation;
  Tag weight_tag;

  explicit Descriptions(const Conv2dProblem& p)
      : x{p.n, p.c, p.h, p.w},
        weight{p.o, p.c, p.kh, p.kw},
        bias{p.o},
        y{p.n, p.o, p.oh, p.ow},
        stride(p.options.stride.begin(), p.options.stride.end()),
        padding(p.options.padding.begin(), p.options.padding.end()),
        dilation{p.options.dilation[0] - 1, p.options.dilation[1] - 1},
        weight_tag(Tag::oihw) {
    const auto groups = p.options.groups;
    if (groups == 1) return;
    weight = {groups, p.o / groups, p.c / groups, p.kh, p.kw};
    weight_tag = Tag::goihw;
  }
  static memory::desc of(const memory::dims& dims, Tag tag) {
    return {dims, memory::data_type::f32, tag};
  }
};

/// A convolution in one direction, ready to run: two operands in (and a bias), one out.
class Plan {
 public:
  Plan(const Conv2dProblem& problem, Pass pass, bool has_bias)
      : problem_(problem), pass_(pass), has_bias_(has_bias) {
    const Descriptions d(problem);
    const auto any = [](const memory::dims& dims) { return Descriptions::of(dims, Tag::any); };
    const auto plain_x = Descriptions::of(d.x, Tag::nchw),
               plain_y = Descriptions::of(d.y, Tag::nchw);
    const auto plain_weight = Descriptions::of(d.weight, d.weight_tag);
    const auto bias = has_bias ? Descriptions::of(d.bias, Tag::x) : memory::desc();
    const dnnl::convolution_forward::primitive_desc forward(
        {dnnl::prop_kind::forward_training, dnnl::algorithm::convolution_direct, any(d.x),
         any(d.weight), bias, any(d.y), d.stride, d.dilation, d.padding, d.padding},
        scratchpad_is_ours(), cpu());
    if (pass == Pass::forward) {
      adopt(forward, plain_x, forward.src_desc(), plain_weight, forward.weights_desc(), plain_y,
            forward.dst_desc());
      primitive_ = dnnl::convolution_forward(forward);
      if (has_bias) bias_ = memory(bias, cpu(), DNNL_MEMORY_NONE);
    } else if (pass == Pass::backward_input) {
      const dnnl::convolution_backward_data::primitive_desc backward(
          {dnnl::algorithm::convolution_direct, any(d.x), any(d.weight), any(d.y), d.stride,
           d.dilation, d.padding, d.padding},
          scratchpad_is_ours(), cpu(), forward);
      adopt(backward, plain_y, backward.diff_dst_desc(), plain_weight, backward.weights_desc(),
            plain_x, backward.diff_src_desc());
      primitive_ = dnnl::convolution_backward_data(backward);
    } else {
      const dnnl::convolution_backward_weights::primitive_desc backward(
          {dnnl::algorithm::convolution_direct, any(d.x), any(d.weight), any(d.y), d.stride,
           d.dilation, d.padding, d.padding},
          scratchpad_is_ours(), cpu(), forward);
      adopt(backward, plain_y, backward.diff_dst_desc(), plain_x, backward.src_desc(), plain_weight,
            backward.diff_weights_desc());
      primitive_ = dnnl::convolution_backward_weights(backward);
    }
  }

  [[nodiscard]] bool serves(const Conv2dProblem& problem, Pass pass, bool has_bias) const {
    return pass_ == pass && has_bias_ == has_bias && problem_ == problem;
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
    std::array<dnnl_exec_arg_t, 4> arguments{{{a.first, first_->read(first)},
                                              {a.second, second_->read(second)},
                                              {a.result, result_->begin_write(result, accumulate)},
                                              {DNNL_ARG_SCRATCHPAD, scratchpad_->handle.get()}}};
    if (has_bias_) {
      bias_.set_data_handle(const_cast<float*>(bias), stream());  // NOLINT: no const memory
      std::array<dnnl_exec_arg_t, 5> with_bias{};
      std::copy(arguments.begin(), arguments.end(), with_bias.begin());
      with_bias.back() = {DNNL_ARG_BIAS, bias_.get()};
      execute(primitive_, with_bias);
    } else {
      execute(primitive_, arguments);
    }
    result_->finish_write(accumulate);
  }

 private:
  static dnnl::primitive_attr scratchpad_is_ours() {
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    return attributes;
  }

  template <class PrimitiveDesc>
  void adopt(const PrimitiveDesc& chosen, const memory::desc& first,
             const memory::desc& first_theirs, const memory::desc& second,
             const memory::desc& second_theirs, const memory::desc& result,
             const memory::desc& result_theirs) {
    first_ = std::make_unique<Operand>(first, first_theirs);
    second_ = std::make_unique<Operand>(second, second_theirs);
    result_ = std::make_unique<Operand>(result, result_theirs);
    scratchpad_ = std::make_unique<OwnMemory>(chosen.scratchpad_desc());
  }

  Conv2dProblem problem_;
  Pass pass_;
  bool has_bias_;
  dnnl::primitive primitive_;
  std::unique_ptr<Operand> first_, second_, result_;
  std::unique_ptr<OwnMemory> scratchpad_;
  memory bias_;
};

/// This thread's plan for a problem, made at the first call. The oldest of 64 makes way for a new
/// one: a network has a few shapes, and the last batch of an epoch a few more.
Plan& plan_for(const Conv2dProblem& problem, Pass pass, bool has_bias) {
  constexpr std::size_t most = 64;
  thread_local std::vector<std::unique_ptr<Plan>> plans;
  thread_local std::size_t oldest = 0;
  for (const auto& plan : plans) {
    if (plan->serves(problem, pass, has_bias)) return *plan;
  }
  std::unique_ptr<Plan> made;
  try {
    made = std::make_unique<Plan>(problem, pass, has_bias);
  } catch (const dnnl::error& error) {
    throw Error("conv2d: oneDNN cannot compute this convolution: " + std::string(error.what()));
  }
  if (plans.size() < most) {
    plans.push_back(std::move(made));
    return *plans.back();
  }
  auto& slot = plans[oldest++ % most];
  slot = std::move(made);
  return *slot;
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
  plan_for(problem, Pass::backward_weight, false).run(grad_y, x, nullptr, accumulate, grad_weight);
}

}  // namespace lockstep::detail::onednn
