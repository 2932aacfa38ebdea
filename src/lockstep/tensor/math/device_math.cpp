#include <lockstep/tensor/math/device_math.hpp>

#include <atomic>
#include <span>
#include <string_view>
#include <utility>

#include <lockstep/tensor/math/plan_cache.hpp>
#include <lockstep/tensor/storage.hpp>

namespace lockstep::math {
namespace {

std::atomic<DeviceMath*> stand_in = nullptr;

template <class Number>
std::string in_words(std::span<const Number> numbers, std::string_view separator) {
  std::string text;
  for (const Number number : numbers) {
    if (!text.empty()) text += separator;
    text += std::to_string(number);
  }
  return text;
}

/// "a[4, 5]", or "a[5, 4]^T" for a matrix that is stored transposed.
std::string matrix(std::string_view name, std::int64_t rows, std::int64_t columns,
                   bool transposed) {
  if (transposed) std::swap(rows, columns);
  const std::int64_t extents[] = {rows, columns};
  return std::string(name) + "[" + in_words<std::int64_t>(extents, ", ") + "]" +
         (transposed ? "^T" : "");
}

/// This thread's plan for a problem, made at the first call; null if there is none.
template <class Plan, class Problem>
Plan* plan_for(DeviceMath& math, const char* name, const Problem& problem, Device device) {
  struct Kept {
    DeviceMath* math;
    Device device;
    Problem problem;
    std::unique_ptr<Plan> plan;
  };
  thread_local lockstep::detail::PlanCache<Kept> plans;
  return plans
      .find_or_make(
          [&](const Kept& kept) {
            return kept.math == &math && kept.device == device && kept.problem == problem;
          },
          [&] {
            return std::make_unique<Kept>(
                Kept{&math, device, problem, math.plan(name, problem, device)});
          })
      .plan.get();
}

/// Returns false for a null plan.
template <class Addresses>
bool run_if_planned(Plan<Addresses>* plan, const char* name, const Addresses& at, Device device) {
  if (plan == nullptr) return false;
  IntrusivePtr<Storage> workspace;
  if (plan->workspace_bytes() > 0) workspace = Storage::allocate(plan->workspace_bytes(), device);
  plan->run(name, at, workspace ? workspace->kernel_data() : nullptr, current_stream(device));
  return true;
}

}  // namespace

std::string describe(const ColumnMajorProduct& p) {
  std::string text = matrix("c", p.columns, p.rows, false);
  text += (p.accumulate ? " += " : " = ") + matrix("a", p.columns, p.terms, p.right.transposed) +
          " " + matrix("b", p.terms, p.rows, p.left.transposed);
  if (p.epilogue == Epilogue::add_bias || p.epilogue == Epilogue::add_bias_gelu) text += " + bias";
  text += " of " + std::string(name_of(p.operands));
  if (p.sums != p.operands) text += ", sums in " + std::string(name_of(p.sums));
  if (p.results != p.sums) text += ", rounded to " + std::string(name_of(p.results));
  if (p.tf32) text += ", in TF32";
  if (p.epilogue == Epilogue::sum_right) text += ", with sums of a's rows";
  if (p.epilogue == Epilogue::add_bias_gelu) text += ", and its gelu";
  if (p.epilogue == Epilogue::gelu_slope) text += ", times a slope of gelu";
  if (p.count != 1) text += ", " + std::to_string(p.count) + " times";
  return text;
}

std::string describe(const Convolution& c) {
  static constexpr std::string_view passes[] = {"forward", "backward_input", "backward_weight"};
  const auto dims = static_cast<std::size_t>(c.dims);
  const auto extents = [&](const std::array<int, 5>& of) {
    return "[" + in_words<int>(std::span(of).first(dims + 2), ", ") + "]";
  };
  const auto option = [&](std::string_view name, const std::array<int, 3>& of) {
    return ", " + std::string(name) + " " + in_words<int>(std::span(of).first(dims), " x ");
  };
  return std::string(passes[static_cast<std::size_t>(c.pass)]) + " of x" + extents(c.x) +
         ", weight" + extents(c.weight) + " and y" + extents(c.y) + " of " +
         std::string(name_of(c.dtype)) + (c.tf32 ? " in TF32" : "") +
         (c.channels_last ? " with channels last" : "") + option("stride", c.stride) +
         option("padding", c.padding) + option("dilation", c.dilation) + ", " +
         std::to_string(c.groups) + (c.groups == 1 ? " group" : " groups");
}

std::string describe(const Attention& a) {
  const std::int64_t extents[] = {a.batch, a.heads, a.queries, a.width};
  const std::int64_t key_heads = a.heads / a.group_heads;
  const std::string in_heads = a.group_heads == 1 ? ""
                                                  : " in " + std::to_string(key_heads) +
                                                        (key_heads == 1 ? " head" : " heads");
  return std::string(a.pass == AttentionPass::forward ? "forward" : "backward") + " of q[" +
         in_words<std::int64_t>(extents, ", ") + "] to " + std::to_string(a.keys) +
         (a.keys == 1 ? " key" : " keys") + in_heads + " of " + std::string(name_of(a.dtype)) +
         (a.causal ? ", causal" : "") + (a.key_bias_row != 0 ? ", with a key bias" : "");
}

DeviceMath* device_math(Device device) noexcept {
  switch (device.type) {
    case DeviceType::host:
      break;
    case DeviceType::cuda:
      return cuda_math();
    case DeviceType::sim:
      return stand_in.load(std::memory_order_acquire);
  }
  return nullptr;
}

MathStandIn::MathStandIn(DeviceMath& math) noexcept { stand_in = &math; }
MathStandIn::~MathStandIn() { stand_in = nullptr; }

bool run(DeviceMath& math, const char* name, const ColumnMajorProduct& product,
         const ProductAddresses& at, Device device) {
  return run_if_planned(plan_for<ProductPlan>(math, name, product, device), name, at, device);
}

bool has_plan(DeviceMath& math, const char* name, const Convolution& convolution, Device device) {
  return plan_for<ConvolutionPlan>(math, name, convolution, device) != nullptr;
}

bool run(DeviceMath& math, const char* name, const Convolution& convolution,
         const ConvolutionAddresses& at, Device device) {
  return run_if_planned(plan_for<ConvolutionPlan>(math, name, convolution, device), name, at,
                        device);
}

bool run(DeviceMath& math, const char* name, const Attention& attention,
         const AttentionAddresses& at, Device device) {
  return run_if_planned(plan_for<FusedAttentionPlan>(math, name, attention, device), name, at,
                        device);
}

}  // namespace lockstep::math
