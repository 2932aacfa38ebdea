#include <lockstep/nn/random.hpp>

#include <atomic>
#include <cmath>
#include <numbers>
#include <vector>

#include <lockstep/base/philox.hpp>
#include <lockstep/base/rank.hpp>
#include <lockstep/nn/init.hpp>

namespace lockstep::nn {
namespace {

// Sets parameters apart from other consumers of the same seed: "PARA" in the stream's upper half,
// which for dropout is the layer's number.
constexpr std::uint64_t first_parameter_stream = std::uint64_t{0x50415241} << 32U;

struct Initialiser {
  std::uint64_t seed = 0;
  std::uint64_t next_parameter = first_parameter_stream;
  std::uint32_t next_layer = 0;
  std::uint32_t next_draw = 0;
};

Initialiser& initialiser() {
  thread_local Initialiser state;
  return state;
}

thread_local RandomContextGuard* current_guard = nullptr;
std::atomic<std::uint64_t> guards{0};

/// Another seed for every `by`; for 0 the seed itself.
std::uint64_t varied(std::uint64_t seed, std::uint64_t by) {
  return seed ^ by * 0x9E3779B97F4A7C15U;  // odd, so that no two products are alike
}

}  // namespace

void manual_seed(std::uint64_t seed) { initialiser() = {.seed = seed}; }

RandomContextGuard::RandomContextGuard(const RandomContext& context)
    : context_(context),
      number_(guards.fetch_add(1, std::memory_order_relaxed) + 1),
      before_(current_guard) {
  current_guard = this;
}

RandomContextGuard::~RandomContextGuard() { current_guard = before_; }

RandomStream::RandomStream() noexcept : layer_(initialiser().next_layer++) {}

RandomKey RandomStream::next() noexcept {
  if (!current_guard) {
    Initialiser& state = initialiser();
    return {varied(state.seed, rank_identity()), layer_, state.next_draw++, 0};
  }
  if (current_guard->number_ != guard_) {
    guard_ = current_guard->number_;
    calls_ = 0;
  }
  const RandomContext& context = current_guard->context_;
  return {varied(context.seed, calls_++), layer_, context.step, context.first_sample};
}

Tensor uniform(const Shape& shape, double bound) {
  PhiloxSequence random(initialiser().seed, initialiser().next_parameter++);
  std::vector<float> elements(static_cast<std::size_t>(shape.numel()));
  for (float& element : elements) {
    element = static_cast<float>((2.0 * static_cast<double>(random.uniform()) - 1.0) * bound);
  }
  return Tensor::from(elements, shape);
}

Tensor normal(const Shape& shape, double standard_deviation) {
  PhiloxSequence random(initialiser().seed, initialiser().next_parameter++);
  std::vector<float> elements(static_cast<std::size_t>(shape.numel()));
  for (float& element : elements) {  // Box and Muller 1958; 1 - uniform() is never 0
    const double radius = std::sqrt(-2.0 * std::log(1.0 - static_cast<double>(random.uniform())));
    const double angle = 2.0 * std::numbers::pi * static_cast<double>(random.uniform());
    element = static_cast<float>(standard_deviation * radius * std::cos(angle));
  }
  return Tensor::from(elements, shape);
}

Tensor default_weight(const Shape& shape) {
  const double fan_in = static_cast<double>(shape.numel()) / static_cast<double>(shape[0]);
  return uniform(shape, 1.0 / std::sqrt(fan_in));
}

Tensor default_bias(std::int64_t outputs, std::int64_t fan_in) {
  return uniform({outputs}, 1.0 / std::sqrt(static_cast<double>(fan_in)));
}

Tensor kaiming_normal_fan_out(const Shape& shape) {
  const double fan_out =
      static_cast<double>(shape[0] * shape.numel()) / static_cast<double>(shape[0] * shape[1]);
  return normal(shape, std::sqrt(2.0 / fan_out));
}

}  // namespace lockstep::nn
