#include <lockstep/nn/random.hpp>

#include <array>
#include <atomic>
#include <cmath>
#include <numbers>
#include <utility>
#include <vector>

#include <lockstep/base/error.hpp>
#include <lockstep/base/philox.hpp>
#include <lockstep/base/pool.hpp>
#include <lockstep/base/rank.hpp>
#include <lockstep/nn/init.hpp>
#include <lockstep/tensor/device_graph.hpp>

namespace lockstep::nn {
namespace {

// Separates parameters from other users of the same seed: "PARA" in the stream's upper half, where
// dropout has the layer's number.
constexpr std::uint64_t first_parameter_stream = std::uint64_t{0x50415241} << 32U;

struct RandomSequence {
  std::uint64_t seed = 0;
  std::uint64_t next_parameter = first_parameter_stream;
  std::uint32_t next_layer = 0;
  std::uint32_t next_draw = 0;
  std::uint64_t thread = 0;  ///< number of this thread among those that draw without a seed
};

}  // namespace

/// Streams that have drawn under a guard, with their number of draws.
struct RandomContextGuard::Calls {
  std::array<std::uint64_t, 15> streams{};  ///< 0: unused
  std::array<std::uint64_t, 15> calls{};
  Calls* next = nullptr;
};

namespace {

std::atomic<std::uint64_t> streams{0};
std::atomic<std::uint64_t> unseeded_threads{0};  // that have drawn
constexpr std::uint64_t not_numbered = ~std::uint64_t{0};

/// A different seed for every `by`; for 0 the seed itself.
std::uint64_t varied(std::uint64_t seed, std::uint64_t by) {
  return seed ^ by * 0x9E3779B97F4A7C15U;  // odd, so that all products differ
}

thread_local RandomSequence sequence{.thread = not_numbered};
thread_local bool skips_init = false;
thread_local RandomContextGuard* current_guard = nullptr;
thread_local RandomTape *recorded_tape = nullptr, *played_tape = nullptr;

/// Of draws without a guard.
std::uint64_t seed_of_thread() {
  RandomSequence& state = sequence;
  if (state.thread == not_numbered) state.thread = unseeded_threads.fetch_add(1);
  // As if seeded with -1, -2, ..., which no program is likely to use.
  return varied(state.seed - state.thread, rank_identity());
}

}  // namespace

SkipInit::SkipInit() noexcept : before_(std::exchange(skips_init, true)) {}
SkipInit::~SkipInit() { skips_init = before_; }

void manual_seed(std::uint64_t seed) { sequence = {.seed = seed}; }

RandomContextGuard::RandomContextGuard(const RandomContext& context)
    : context_(context), before_(current_guard) {
  current_guard = this;
}

RandomContextGuard::~RandomContextGuard() {
  current_guard = before_;
  while (calls_) ObjectPool<Calls>::instance().recycle(std::exchange(calls_, calls_->next));
}

std::uint64_t RandomContextGuard::calls_of(std::uint64_t stream) {
  Calls** block = &calls_;
  for (; *block; block = &(*block)->next) {
    for (std::size_t i = 0; i < (*block)->streams.size(); ++i) {
      std::uint64_t& place = (*block)->streams[i];
      if (place == 0) place = stream;
      if (place == stream) return (*block)->calls[i]++;
    }
  }
  *block = ObjectPool<Calls>::instance().make();
  (*block)->streams[0] = stream;
  return (*block)->calls[0]++;
}

RandomStream::RandomStream(std::uint32_t number) noexcept
    : layer_(number), number_(streams.fetch_add(1, std::memory_order_relaxed) + 1) {}

RandomStream::RandomStream() noexcept : RandomStream(sequence.next_layer++) {}

RandomTape::Recording::Recording(RandomTape& tape) noexcept
    : before_(std::exchange(recorded_tape, &tape)) {}
RandomTape::Recording::~Recording() { recorded_tape = before_; }

RandomTape::Replay::Replay(RandomTape& tape) noexcept
    : recording_before_(std::exchange(recorded_tape, nullptr)),
      before_(std::exchange(played_tape, &tape)) {
  tape.next_ = tape.keys_.begin();
}
RandomTape::Replay::~Replay() {
  recorded_tape = recording_before_;
  played_tape = before_;
}

RandomKey RandomTape::play() {
  if (next_ == keys_.end())
    throw Error("recomputation draws more random numbers than the first computation");
  const RandomKey key = *next_;
  ++next_;
  return key;
}

void RandomTape::record(const RandomKey& key) { keys_.push_back(key); }

RandomKey RandomStream::next() {
  const RandomKey key = played_tape ? played_tape->play() : draw();
  if (recorded_tape) recorded_tape->record(key);
  return key;
}

void RandomStream::agree_on(const RandomKey& key) noexcept {
  // Other draws by this seed count up from the step of their first; these from the middle.
  layer_ = key.stream;
  agreed_seed_ = key.seed;
  agreed_draws_ = std::uint32_t{1} << 31U;
}

/// A draw that each replay of the graph repeats with a step of its own, which the host determines
/// as it does for a plain draw. A capture draws nothing: it only takes the key's other parts.
RandomKey RandomStream::capture_draw(DeviceGraph& graph) {
  const DeviceGraph::Numbers numbers = graph.numbers(sizeof(std::uint32_t));
  const auto write = [to = static_cast<std::uint32_t*>(numbers.host)](std::uint32_t step) {
    *to = step;
  };
  RandomKey key;
  if (current_guard) {
    const RandomContext& context = current_guard->context_;
    key = {varied(context.seed, current_guard->calls_of(number_)), layer_, context.step,
           context.first_sample};
    graph.before_replay([write, seed = context.seed] {
      if (!current_guard || current_guard->context_.seed != seed) {
        throw Error(
            "a graph that was captured under a RandomContextGuard is replayed under one of the "
            "same seed, which knows the step");
      }
      write(current_guard->context_.step);
    });
  } else if (agreed_seed_) {
    key = {*agreed_seed_, layer_, agreed_draws_, 0};
    graph.before_replay([this, write] { write(agreed_draws_++); });
  } else {
    key = {seed_of_thread(), layer_, sequence.next_draw, 0};
    graph.before_replay([write] { write(sequence.next_draw++); });
  }
  key.step_memory = static_cast<const std::uint32_t*>(numbers.device);
  return key;
}

RandomKey RandomStream::draw() {
  if (DeviceGraph* const graph = DeviceGraph::capturing()) return capture_draw(*graph);
  if (!current_guard && agreed_seed_) return {*agreed_seed_, layer_, agreed_draws_++, 0};
  if (!current_guard) {
    const std::uint64_t seed = seed_of_thread();
    return {seed, layer_, sequence.next_draw++, 0};
  }
  const RandomContext& context = current_guard->context_;
  return {varied(context.seed, current_guard->calls_of(number_)), layer_, context.step,
          context.first_sample};
}

Tensor uniform(const Shape& shape, double bound) {
  PhiloxSequence random(sequence.seed, sequence.next_parameter++);
  if (skips_init) return Tensor::empty(shape);
  std::vector<float> elements(static_cast<std::size_t>(shape.numel()));
  for (float& element : elements) {
    element = static_cast<float>((2.0 * static_cast<double>(random.uniform()) - 1.0) * bound);
  }
  return Tensor::from(elements, shape);
}

Tensor normal(const Shape& shape, double standard_deviation) {
  PhiloxSequence random(sequence.seed, sequence.next_parameter++);
  if (skips_init) return Tensor::empty(shape);
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
