// Attention of 16 bits on a GPU: when its library computes it in one call, in a forward and a
// backward pass of variables, and that results are the host's. On a simulated device a stand-in
// computes like a GPU and counts.
#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <lockstep/autograd/backward.hpp>
#include <lockstep/autograd/functional.hpp>
#include <support/gpu_stand_in.hpp>
#include <support/test_devices.hpp>

#include "gradient_check.hpp"

namespace lockstep::test {
namespace {

constexpr std::int64_t num_heads = 2, embed_dim = 32;

/// Of one operand [2,24,96], three times that of attention.
using Attend = std::function<Variable(const Variable&)>;

Variable third(const Variable& x, std::int64_t part) {
  return narrow(x, 2, part * embed_dim, embed_dim);
}

/// Output and gradient.
std::vector<std::vector<double>> results_of(const Attend& attend, DType dtype, Device device) {
  const Variable x(random_tensor({2, 24, 3 * embed_dim}, 1).to(DType::f32).to(device), true);
  const Variable y = attend(to(x, dtype));
  const Tensor upstream = random_tensor(y.shape(), 2).to(y.data().dtype()).to(device);
  backward(std::span(&y, 1), std::span(&upstream, 1));
  return {y.data().to(DType::f64).to_vector<double>(), x.grad().to(DType::f64).to_vector<double>()};
}

class DeviceAttention : public testing::TestWithParam<Device> {
 protected:
  DeviceAttention() {
    if (GetParam().type == DeviceType::sim) stand_in_.emplace();
  }

  /// The library computes that many passes.
  void expect(const char* what, int passes, const Attend& attend, DType dtype = DType::bf16) {
    SCOPED_TRACE(what);
    const auto expected = results_of(attend, dtype, {});
    const int before = GpuStandIn::attentions();
    const auto found = results_of(attend, dtype, GetParam());
    if (stand_in_) {
      EXPECT_EQ(GpuStandIn::attentions() - before, passes);
    }
    for (std::size_t i = 0; i < expected.size(); ++i) {
      expect_like_host(GetParam(), found[i], expected[i], 2e-2, 2e-2);
    }
  }

 private:
  std::optional<GpuStandIn> stand_in_;
};

TEST_P(DeviceAttention, OfAPackedProjectionWritesTheGradientsSideBySide) {
  for (const DType dtype : {DType::bf16, DType::f16}) {
    expect(
        "all keys", 2, [](const Variable& x) { return self_attention(x, num_heads); }, dtype);
    expect(
        "causal", 2,
        [](const Variable& x) { return self_attention(x, num_heads, {.causal = true}); }, dtype);
  }
  expect(
      "f32", 0, [](const Variable& x) { return self_attention(x, num_heads); }, DType::f32);
}

TEST_P(DeviceAttention, OfThreeVariablesNeedsAGradientOfItsOwnForEach) {
  expect("apart", 2, [](const Variable& x) {
    return multi_head_attention(third(x, 0), third(x, 1), third(x, 2), num_heads);
  });
  expect("heads apart", 2, [](const Variable& x) {
    const auto split = [&](std::int64_t part) {
      return transpose(reshape(third(x, part), {2, 24, num_heads, embed_dim / num_heads}), 1, 2);
    };
    return scaled_dot_product_attention(split(0), split(1), split(2), {.causal = true});
  });
  expect("fewer heads of keys", 2, [](const Variable& x) {
    const auto query = transpose(reshape(third(x, 0), {2, 24, 4, 8}), 1, 2);
    const auto split = [&](std::int64_t part) {
      return transpose(reshape(narrow(third(x, part), 2, 0, 16), {2, 24, 2, 8}), 1, 2);
    };
    return scaled_dot_product_attention(query, split(1), split(2), {.causal = true});
  });
  expect("keys that are the values", 1, [](const Variable& x) {
    const Variable keys = third(x, 1);
    return multi_head_attention(third(x, 0), keys, keys, num_heads);
  });
  expect("keys without a gradient", 1, [](const Variable& x) {
    return multi_head_attention(third(x, 0), Variable(third(x, 1).data()), third(x, 2), num_heads);
  });
}

TEST_P(DeviceAttention, AddsToAGradientByProducts) {
  expect("an operand that is read again", 1, [](const Variable& x) {
    const Variable y = self_attention(x, num_heads);
    return y + third(x, 0);
  });
}

/// The first five keys of the first sample, and all of the second.
Tensor hidden_keys(Device device) {
  const Tensor hidden = Tensor::zeros({2, 24});
  hidden[0].slice(0, 5).fill(1);
  hidden[1].fill(1);
  return hidden.to(DType::boolean).to(device);
}

TEST_P(DeviceAttention, HidesPaddedKeysInTheLibrarysCall) {
  for (const bool causal : {false, true}) {
    expect("a padding mask", 2, [=](const Variable& x) {
      AttentionOptions options{.causal = causal};
      options.key_padding_mask = hidden_keys(x.data().device());
      return self_attention(x, num_heads, options);
    });
  }
}

TEST_P(DeviceAttention, WithAMaskOfItsOwnForEachQueryIsComputedByProducts) {
  expect("a mask", 0, [](const Variable& x) {
    AttentionOptions options;
    options.mask = Tensor::full({24, 24}, 1, DType::boolean, x.data().device());
    return self_attention(x, num_heads, options);
  });
}

INSTANTIATE_TEST_SUITE_P(Devices, DeviceAttention, testing::ValuesIn(devices_to_test()),
                         name_of_device_case);

}  // namespace
}  // namespace lockstep::test
