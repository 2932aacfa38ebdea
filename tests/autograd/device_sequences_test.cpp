// Recurrent layers and ctc_loss on a device: what they cost it, and what they say of wrong targets.
// Their numbers are in devices_test.cpp and golden_breadth_test.cpp.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include <lockstep/autograd/autocast.hpp>
#include <lockstep/autograd/backward.hpp>
#include <lockstep/autograd/functional/activation.hpp>
#include <lockstep/autograd/functional/ctc_loss.hpp>
#include <lockstep/autograd/functional/recurrent.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/tensor/kernels/data/index_check.hpp>
#include <lockstep/tensor/runtime/simulated_runtime.hpp>
#include <support/gpu_stand_in.hpp>
#include <support/message_of.hpp>
#include <support/test_devices.hpp>

#include "gradient_check.hpp"

namespace lockstep::test {
namespace {

constexpr Device simulated{DeviceType::sim, 0};
constexpr RnnMode all_modes[] = {RnnMode::rnn_tanh, RnnMode::rnn_relu, RnnMode::lstm, RnnMode::gru};

Tensor whole(const std::vector<std::int64_t>& values) {
  return Tensor::from(values, {static_cast<std::int64_t>(values.size())});
}
Tensor whole(const std::vector<std::int64_t>& values, const Shape& shape) {
  return Tensor::from(values, shape);
}

/// What of a layer's work a simulated device has counted.
struct DeviceWork {
  std::int64_t products = 0, launches = 0, host_waits = 0;

  static DeviceWork now() {
    const SimulatedCounts counts = SimulatedRuntime::instance().counts(simulated.index);
    return {GpuStandIn::runs(), counts.launches, counts.host_waits};
  }
  friend DeviceWork operator-(const DeviceWork& a, const DeviceWork& b) {
    return {a.products - b.products, a.launches - b.launches, a.host_waits - b.host_waits};
  }
};

/// A layer on one device, for sequences of `steps` elements.
struct OneLayer {
  Variable x, h0, weight_ih, weight_hh, bias_ih, bias_hh;
  RnnMode mode;

  OneLayer(RnnMode mode, std::int64_t steps, Device device, DType dtype = DType::f32) : mode(mode) {
    const std::int64_t width = gates_of(mode) * 6;
    std::uint64_t seed = 1;
    const auto leaf = [&](const Shape& shape) {
      return Variable(random_tensor(shape, seed++).to(dtype).to(device), true);
    };
    x = leaf({steps, 3, 4});
    h0 = leaf({3, 6});
    weight_ih = leaf({width, 4});
    weight_hh = leaf({width, 6});
    bias_ih = leaf({width});
    bias_hh = leaf({width});
  }

  [[nodiscard]] Variable forward(const Tensor& lengths = {}) const {
    return recurrent_layer(mode, x, h0, {}, {weight_ih, weight_hh, bias_ih, bias_hh},
                           /*reverse=*/false, lengths)
        .output;
  }
  [[nodiscard]] std::vector<double> gradients() const {
    std::vector<double> all;
    for (const Variable* v : {&x, &h0, &weight_ih, &weight_hh, &bias_ih, &bias_hh}) {
      const auto one = v->grad().to(DType::f64).to_vector<double>();
      all.insert(all.end(), one.begin(), one.end());
    }
    return all;
  }
};

void pass_back(const Variable& y, const Tensor& upstream) {
  backward(std::span(&y, 1), std::span(&upstream, 1));
}

TEST(RecurrentOnAGpu, AStepIsOneProductAndOneKernelEachWay) {
  const GpuStandIn gpu;
  struct Cost {
    DeviceWork forward, backward;
  };
  for (const RnnMode mode : all_modes) {
    for (const bool unequal : {false, true}) {
      const auto cost_of = [&](std::int64_t steps) {
        const OneLayer layer(mode, steps, simulated);
        const Tensor lengths = unequal ? whole({1, steps, 2}).to(simulated) : Tensor();
        const Tensor upstream = Tensor::full({steps, 3, 6}, 1.0, DType::f32, simulated);
        const DeviceWork begin = DeviceWork::now();
        const Variable y = layer.forward(lengths);
        const DeviceWork middle = DeviceWork::now();
        pass_back(y, upstream);
        return Cost{middle - begin, DeviceWork::now() - middle};
      };
      static_cast<void>(cost_of(3));  // the first makes what checks need
      const Cost three = cost_of(3), seven = cost_of(7);
      const DeviceWork forward = seven.forward - three.forward,
                       backward = seven.backward - three.backward;
      EXPECT_EQ(forward.products, 4) << static_cast<int>(mode);
      EXPECT_EQ(forward.launches, 8) << static_cast<int>(mode);
      EXPECT_EQ(backward.products, 4) << static_cast<int>(mode);
      EXPECT_EQ(backward.launches, 8) << static_cast<int>(mode);
      EXPECT_EQ(seven.forward.host_waits + seven.backward.host_waits, 0) << "nothing waits";
    }
  }
}

TEST(RecurrentOnAGpu, OperandsAreRoundedUnderAutocastAsOnTheHost) {
  const auto run = [](RnnMode mode, Device device) {
    const OneLayer layer(mode, 5, device);
    const Autocast autocast(Precision::bf16);
    const Variable y = layer.forward(whole({5, 2, 1}));
    pass_back(y, random_tensor(y.shape(), 9).to(DType::f32).to(device));
    std::vector<double> all = y.data().to(DType::f64).to_vector<double>();
    const auto gradients = layer.gradients();
    all.insert(all.end(), gradients.begin(), gradients.end());
    return all;
  };
  for (const RnnMode mode : all_modes) {
    const auto expected = run(mode, {});
    const GpuStandIn gpu;
    const auto found = run(mode, simulated);
    ASSERT_EQ(found.size(), expected.size());
    double largest = 0;
    for (const double e : expected) largest = std::max(largest, std::abs(e));
    for (std::size_t i = 0; i < found.size(); ++i) {
      ASSERT_NEAR(found[i], expected[i], gpu_tolerance(DType::bf16) * largest)
          << static_cast<int>(mode) << ", element " << i;
    }
  }
}

TEST(RecurrentOnADevice, LengthsMayBeBesideX) {
  for (const RnnMode mode : all_modes) {
    const OneLayer host(mode, 5, {}), there(mode, 5, simulated);
    const Tensor lengths = whole({2, 5, 1}), upstream = random_tensor({5, 3, 6}, 9).to(DType::f32);
    const Variable expected = host.forward(lengths), found = there.forward(lengths.to(simulated));
    EXPECT_EQ(found.data().to_vector<float>(), expected.data().to_vector<float>());
    pass_back(expected, upstream);
    pass_back(found, upstream.to(simulated));
    EXPECT_EQ(there.gradients(), host.gradients());
  }
}

TEST(RecurrentOnADevice, WrongLengthsBesideXAreReportedLateWithTheHostsMessage) {
  const OneLayer host(RnnMode::gru, 5, {}), there(RnnMode::gru, 5, simulated);
  for (const std::int64_t wrong : {0, 6}) {
    const Tensor lengths = whole({2, wrong, 1});
    const std::string expected =
        message_of<ShapeError>([&] { static_cast<void>(host.forward(lengths)); });
    EXPECT_NE(expected.find(std::to_string(wrong) + " (sequence 1)"), std::string::npos);
    const Variable y = there.forward(lengths.to(simulated));
    EXPECT_EQ(message_of<InputError>([&] { expect_right_indices(simulated); }), expected);
    // 1 stands for it.
    EXPECT_EQ(y.data().to_vector<float>(),
              host.forward(whole({2, 1, 1})).data().to_vector<float>());
  }
}

/// A batch of 4 samples, 5 classes and 7 frames: repeated labels, no label, too few frames, none.
struct CtcSamples {
  Tensor targets, frames, lengths;
};
const CtcSamples in_rows{whole({1, 1, 2, 4, 3, 0, 2, 9, -7, 3, 3, 3}, {4, 3}), whole({7, 6, 5, 2}),
                         whole({3, 2, 1, 3})},
    in_one_row{whole({1, 1, 2, 4, 3, 3, 3, 3, 99}), whole({7, 0, 0, 2}), whole({3, 2, 0, 3})};

std::vector<double> ctc_numbers(const CtcSamples& batch, Reduction reduction, bool zero_infinity,
                                DType dtype, Device device) {
  const Variable x(random_tensor({7, 4, 5}, 3).to(dtype).to(device), true);
  const Variable log_probs = log_softmax(x, 2);
  std::vector<double> all;
  std::vector<Variable> losses;  // of the second the gradient is added to the first's
  std::vector<Tensor> upstream;
  for (const std::uint64_t seed : {4U, 5U}) {
    losses.push_back(ctc_loss(log_probs, batch.targets.to(device), batch.frames.to(device),
                              batch.lengths.to(device), 0, reduction, zero_infinity));
    const Tensor& loss = losses.back().data();
    EXPECT_EQ(loss.device(), device);
    const auto values = loss.to(DType::f64).to_vector<double>();
    all.insert(all.end(), values.begin(), values.end());
    upstream.push_back(random_tensor(loss.shape(), seed).to(dtype).to(device));
  }
  backward(losses, upstream);
  const auto gradient = x.grad().to(DType::f64).to_vector<double>();
  all.insert(all.end(), gradient.begin(), gradient.end());
  return all;
}

TEST(CtcLossOnADevice, HasTheHostsBits) {
  for (const bool stands_in : {false, true}) {
    for (const CtcSamples* batch : {&in_rows, &in_one_row}) {
      for (const Reduction reduction : {Reduction::none, Reduction::sum, Reduction::mean}) {
        for (const bool zero_infinity : {false, true}) {
          for (const DType dtype : {DType::f32, DType::f64}) {
            const auto expected = ctc_numbers(*batch, reduction, zero_infinity, dtype, {});
            if (!stands_in) {
              expect_like_host(simulated,
                               ctc_numbers(*batch, reduction, zero_infinity, dtype, simulated),
                               expected, 0);
              continue;
            }
            // A GPU's log_softmax sums in one pass, with other roundings.
            const GpuStandIn gpu;
            expect_like_host(simulated,
                             ctc_numbers(*batch, reduction, zero_infinity, dtype, simulated),
                             expected, 0, dtype == DType::f32 ? 0x1p-21 : 0x1p-45);
          }
        }
      }
    }
  }
}

TEST(CtcLossOnADevice, HoldsTheHostForNothing) {
  const Variable log_probs(random_tensor({7, 4, 5}, 3).to(simulated), true);
  const CtcSamples there{in_rows.targets.to(simulated), in_rows.frames.to(simulated),
                         in_rows.lengths.to(simulated)};
  const DeviceWork before = DeviceWork::now();
  const Variable loss = ctc_loss(log_probs, there.targets, there.frames, there.lengths);
  loss.backward();
  EXPECT_EQ((DeviceWork::now() - before).host_waits, 0);
}

TEST(CtcLossOnADevice, WrongTargetsAreReportedLateWithTheHostsMessage) {
  const auto refusal = [](const CtcSamples& batch, Device device) -> std::string {
    try {
      const Variable x(log_softmax(Variable(random_tensor({7, 4, 5}, 3).to(device)), 2).data(),
                       true);
      const Variable loss = ctc_loss(x, batch.targets.to(device), batch.frames.to(device),
                                     batch.lengths.to(device), 0, Reduction::sum);
      loss.backward();  // reads and writes nothing outside
      static_cast<void>(loss.data().item());
    } catch (const InputError& error) {
      return error.what();
    }
    return "nothing was thrown";
  };
  const auto expect_told = [&](const CtcSamples& batch, const std::string& part) {
    const std::string told = refusal(batch, {});
    EXPECT_NE(told.find(part), std::string::npos) << told;
    EXPECT_EQ(refusal(batch, simulated), told);
    EXPECT_EQ(Tensor::full({1}, 1.0, DType::f32, simulated).item(), 1.0) << "it is told once";
  };
  EXPECT_EQ(refusal(in_rows, simulated), "nothing was thrown");
  CtcSamples wrong = in_rows;
  wrong.targets = whole({1, 1, 2, 4, 5, 0, 2, 9, -7, 3, 3, 3}, {4, 3});
  expect_told(wrong, "label 5 of sample 1 must be a class other than the blank");
  wrong.targets = whole({1, 1, 0, 4, 3, 0, 2, 9, -7, 3, 3, 3}, {4, 3});
  expect_told(wrong, "label 0 of sample 0 must be a class other than the blank");
  constexpr auto least = std::numeric_limits<std::int64_t>::min() / 2;
  wrong.targets = whole({1, 1, 1, 4, 3, 0, 2, 9, -7, 3, 3, least}, {4, 3});
  expect_told(wrong, "label " + std::to_string(least) + " of sample 3");
  wrong = in_one_row;
  wrong.targets = whole({1, 1, 2, -4, 3, 3, 3, 3, 99});
  expect_told(wrong, "label -4, number 3 in the row of all labels,");
  wrong = in_rows;
  wrong.frames = whole({7, 8, 5, 2});
  expect_told(wrong, "input length 8 of sample 1 must be between 0 and 7");
  wrong = in_rows;
  wrong.lengths = whole({3, 2, -1, 3});
  expect_told(wrong, "target length -1 of sample 2 must be between 0 and the 3 labels given");
  wrong.lengths = whole({3, 2, 1, 4});
  expect_told(wrong, "target length 4 of sample 3 must be between 0 and the 3 labels given");
  wrong = in_one_row;
  wrong.lengths = whole({3, 7, 0, 1});
  expect_told(wrong, "the target lengths up to sample 1 add up to 10, which must be at most the 9");
}

TEST(CtcLossOnADevice, AWrongLengthCountsAsNone) {
  const auto losses = [](const CtcSamples& batch, Device device) {
    const Variable x = log_softmax(Variable(random_tensor({7, 4, 5}, 3).to(device)), 2);
    return ctc_loss(x, batch.targets.to(device), batch.frames.to(device), batch.lengths.to(device),
                    0, Reduction::none)
        .data();
  };
  const auto expect_like = [&](const CtcSamples& wrong, const CtcSamples& right) {
    const Tensor found = losses(wrong, simulated);
    EXPECT_THROW(expect_right_indices(simulated), InputError);
    EXPECT_EQ(found.to_vector<double>(), losses(right, {}).to_vector<double>());
  };
  CtcSamples wrong = in_rows, right = in_rows;
  wrong.lengths = whole({3, -2, 4, 3});
  right.lengths = whole({3, 0, 0, 3});
  expect_like(wrong, right);
  wrong = right = in_rows;
  wrong.frames = whole({7, 8, -1, 2});
  right.frames = whole({7, 0, 0, 2});
  expect_like(wrong, right);
  // From the first sample on whose labels are not all in the row.
  wrong = right = in_one_row;
  wrong.lengths = whole({3, 7, 0, 9});
  right.lengths = whole({3, 0, 0, 0});
  expect_like(wrong, right);
}

}  // namespace
}  // namespace lockstep::test
