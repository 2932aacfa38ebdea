// One wait is forgotten on purpose, at each place where Lockstep orders streams, or the host and a
// stream: the data is wrong for some seed, and right for every seed when nothing is forgotten.
#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <lockstep/tensor/runtime/simulated_runtime.hpp>
#include <lockstep/tensor/stream.hpp>
#include <lockstep/tensor/tensor.hpp>

namespace lockstep {
namespace {

constexpr Device device{DeviceType::sim, 0}, other_device{DeviceType::sim, 1};
constexpr std::int64_t count = 100;
constexpr std::uint64_t seeds = 20;

/// Called just before the wait that may be forgotten.
class Forgetting {
 public:
  explicit Forgetting(bool really) : really_(really) {}
  /// The next wait on `device`.
  void next_wait(Device on) const {
    if (really_) SimulatedRuntime::instance().inject(on.index, {.lost_wait_at = 1});
  }

 private:
  bool really_;
};

std::vector<float> all(float value) { return std::vector<float>(count, value); }

Tensor full(float value, Device on = device) {
  return Tensor::full({count}, value, DType::f32, on);
}

/// Whether the data is right. `value` is another each time, so that memory which is used again does
/// not hold it already.
struct Place {
  const char* name;
  bool (*is_right)(float value, const Forgetting& forget);
};

void PrintTo(const Place& place, std::ostream* out) { *out << place.name; }

bool copy_to_another_device_waits_for_its_source(float value, const Forgetting& forget) {
  const Tensor x = full(value);
  forget.next_wait(other_device);
  return x.to(other_device).to_vector<float>() == all(value);
}

bool source_waits_for_the_copy_to_another_device(float value, const Forgetting& forget) {
  const Tensor x = full(value);
  forget.next_wait(device);
  const Tensor copy = x.to(other_device);
  x.fill(-1);
  current_stream(device).synchronize();
  return copy.to_vector<float>() == all(value);
}

/// A loader's: the batch is copied on a stream of its own.
bool step_waits_for_the_batch(float value, const Forgetting& forget) {
  const Stream copies = Stream::from_pool(device);
  const Tensor pinned = full(value, {}).pin_memory(DeviceType::sim);
  Tensor batch;
  DeviceEvent copied(device);
  {
    const StreamGuard guard(copies);
    batch = pinned.to(device, true);
    copied.record(copies);
  }
  batch.record_stream(current_stream(device));
  forget.next_wait(device);
  current_stream(device).wait(copied);
  const Tensor result = batch.clone();
  result *= 2;
  const bool is_right = result.to_vector<float>() == all(2 * value);
  copies.synchronize();
  return is_right;
}

bool loader_waits_for_the_step_before_it_fills_the_batch_again(float value,
                                                               const Forgetting& forget) {
  const Stream copies = Stream::from_pool(device);
  const Tensor next = full(-1, {}).pin_memory(DeviceType::sim), batch = full(value);
  DeviceEvent used(device);
  const Tensor result = batch.clone();
  used.record(current_stream(device));
  {
    const StreamGuard guard(copies);
    forget.next_wait(device);
    copies.wait(used);
    batch.copy_from(next, true);
  }
  copies.synchronize();
  return result.to_vector<float>() == all(value);
}

bool allocator_waits_for_other_streams(float value, const Forgetting& forget) {
  const Stream work = Stream::from_pool(device);
  Tensor x = full(value);
  current_stream(device).synchronize();
  Tensor copy;
  {
    const StreamGuard guard(work);
    copy = x.clone();
    x.record_stream(work);
  }
  x = Tensor();
  forget.next_wait(device);
  const Tensor again = full(-1);
  current_stream(device).synchronize();
  const StreamGuard guard(work);
  return copy.to_vector<float>() == all(value);
}

bool allocator_waits_for_the_copy_from_pinned_memory(float value, const Forgetting& forget) {
  Tensor pinned = full(value, {}).pin_memory(DeviceType::sim);
  const Tensor batch = pinned.to(device, true);
  pinned = Tensor();
  forget.next_wait(device);
  const Tensor again = full(-1, {}).pin_memory(DeviceType::sim);
  return batch.to_vector<float>() == all(value);
}

bool copy_to_pinned_memory_is_waited_for(float value, const Forgetting& forget) {
  const Tensor pinned = full(-1, {}).pin_memory(DeviceType::sim);
  const Tensor x = full(value);
  forget.next_wait(device);
  pinned.copy_from(x);
  const bool is_right = pinned.to_vector<float>() == all(value);
  current_stream(device).synchronize();
  return is_right;
}

bool host_waits_for_the_event_behind_a_result(float value, const Forgetting& forget) {
  const Tensor x = full(value);
  const Tensor result = x.to(Device{}, true);
  DeviceEvent copied(device);
  copied.record(current_stream(device));
  forget.next_wait(device);
  copied.synchronize();
  const bool is_right = result.to_vector<float>() == all(value);
  current_stream(device).synchronize();
  return is_right;
}

class MissingWait : public testing::TestWithParam<Place> {
 protected:
  static bool is_right(std::uint64_t seed, bool forget) {
    auto& runtime = SimulatedRuntime::instance();
    for (const Device one : {device, other_device}) runtime.synchronize_device(one.index);
    runtime.set_seed(seed);
    static float value = 0;
    const bool right = GetParam().is_right(++value, Forgetting(forget));
    for (const Device one : {device, other_device}) runtime.let_go(one.index);
    return right;
  }
};

#define PLACE(name) \
  Place { #name, name }
INSTANTIATE_TEST_SUITE_P(
    At, MissingWait,
    testing::Values(PLACE(copy_to_another_device_waits_for_its_source),
                    PLACE(source_waits_for_the_copy_to_another_device),
                    PLACE(step_waits_for_the_batch),
                    PLACE(loader_waits_for_the_step_before_it_fills_the_batch_again),
                    PLACE(allocator_waits_for_other_streams),
                    PLACE(allocator_waits_for_the_copy_from_pinned_memory),
                    PLACE(copy_to_pinned_memory_is_waited_for),
                    PLACE(host_waits_for_the_event_behind_a_result)),
    [](const auto& place) { return std::string(place.param.name); });
#undef PLACE

TEST_P(MissingWait, IsWrongDataForSomeSeedAndTheRightWaitForNone) {
  for (std::uint64_t seed = 0; seed < seeds; ++seed) {
    EXPECT_TRUE(is_right(seed, false)) << "seed " << seed;
  }
#ifndef __SANITIZE_THREAD__  // a forgotten wait is a data race
  int wrong = 0;
  for (std::uint64_t seed = 0; seed < seeds; ++seed) {
    wrong += !is_right(seed, true);
    EXPECT_TRUE(is_right(seed, false)) << "seed " << seed << ", after a wait was forgotten";
  }
  EXPECT_GE(wrong, 3);
#endif
}

}  // namespace
}  // namespace lockstep
