// Kernels of every folder on the host and on a device: the same bits on a simulated one, close
// numbers on a GPU.
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <lockstep/tensor/finite.hpp>
#include <lockstep/tensor/kernels/data/augment.hpp>
#include <lockstep/tensor/kernels/data/categorical.hpp>
#include <lockstep/tensor/kernels/data/gather.hpp>
#include <lockstep/tensor/kernels/data/index_check.hpp>
#include <lockstep/tensor/kernels/elementwise/activation.hpp>
#include <lockstep/tensor/kernels/elementwise/dropout.hpp>
#include <lockstep/tensor/kernels/elementwise/unary.hpp>
#include <lockstep/tensor/kernels/linalg/linear.hpp>
#include <lockstep/tensor/kernels/linalg/matmul.hpp>
#include <lockstep/tensor/kernels/linalg/orthonormalize.hpp>
#include <lockstep/tensor/kernels/loss/accuracy.hpp>
#include <lockstep/tensor/kernels/loss/loss.hpp>
#include <lockstep/tensor/kernels/loss/regression_loss.hpp>
#include <lockstep/tensor/kernels/norm/batch_norm.hpp>
#include <lockstep/tensor/kernels/norm/norm.hpp>
#include <lockstep/tensor/kernels/optim/clip.hpp>
#include <lockstep/tensor/kernels/pool/avg_pool2d.hpp>
#include <lockstep/tensor/kernels/pool/pool2d.hpp>
#include <lockstep/tensor/kernels/reduce/cumsum.hpp>
#include <lockstep/tensor/kernels/reduce/softmax.hpp>
#include <lockstep/tensor/kernels/reduce/sort.hpp>
#include <lockstep/tensor/kernels/sequence/embedding.hpp>
#include <lockstep/tensor/precision.hpp>
#include <lockstep/tensor/tensor.hpp>

#include "device_tensors.hpp"

namespace lockstep {
namespace {

using test::DeviceKernels;
using test::DeviceTensors;

INSTANTIATE_TEST_SUITE_P(Devices, DeviceKernels, testing::ValuesIn(test::devices_to_test()),
                         test::name_of_device_case);

TEST_P(DeviceKernels, ActivationsAgreeWithTheHost) {
  expect_like_host([](DeviceTensors& t) {
    const Tensor x = t.input({33, 65}), g = t.input({33, 65});
    const Tensor y = t.output({33, 65}), z = t.output({33, 65}), e = t.output({33, 65});
    relu_forward(x, y);
    relu_backward(g, y, true, z);
    gelu_forward(x, Gelu::tanh, y);
    gelu_backward(g, x, Gelu::tanh, true, z);
    unary_forward({Unary::exp}, x, e);
    unary_backward({Unary::exp}, g, e, true, z);
  });
}

TEST_P(DeviceKernels, DropoutAgreesWithTheHost) {
  expect_like_host([](DeviceTensors& t) {
    const Tensor scale = t.output({8, 100}), y = t.output({8, 100});
    dropout_scale(0.3, {.seed = 5, .step = 2}, scale);
    apply_scale(t.input({8, 100}), scale, false, y);
  });
}

TEST_P(DeviceKernels, SoftmaxAndCumsumAgreeWithTheHost) {
  expect_like_host([](DeviceTensors& t) {
    const Tensor x = t.input({20, 70}), g = t.input({20, 70});
    const Tensor y = t.output({20, 70}), z = t.output({20, 70}), s = t.output({20, 70});
    softmax_forward(x, 1, y);
    softmax_backward(g, y, 1, false, z);
    log_softmax_forward(x, 0, s);
    cumsum(s, 0, false, true, z);
  });
}

TEST_P(DeviceKernels, NormsAgreeWithTheHost) {
  expect_like_host([](DeviceTensors& t) {
    const Tensor x = t.input({12, 80}), w = t.input({80}), b = t.input({80}), g = t.input({12, 80});
    const Tensor y = t.output({12, 80}), mean = t.output({12}), inverse_std = t.output({12});
    layer_norm_forward(x, w, b, 1e-5, y, mean, inverse_std);
    layer_norm_backward(g, x, w, mean, inverse_std,
                        {t.output({12, 80}), t.output({80}), t.output({80})});
    const BatchNormInputs inputs{.x = t.input({6, 5, 4, 4}),
                                 .weight = t.input({5}),
                                 .bias = t.input({5}),
                                 .running_mean = t.output({5}),
                                 .running_var = t.output({5})};
    const BatchNormSaved saved{t.output({5}), t.output({5})};
    const Tensor normal = t.output({6, 5, 4, 4});
    batch_norm_forward(inputs, true, 0.1, 1e-5, normal, saved);
    batch_norm_backward(
        inputs, true, saved, normal, t.input({6, 5, 4, 4}),
        {.x = t.output({6, 5, 4, 4}), .weight = t.output({5}), .bias = t.output({5})});
  });
}

TEST_P(DeviceKernels, LossesAgreeWithTheHost) {
  expect_like_host([](DeviceTensors& t) {
    const Tensor x = t.input({16, 10}), target = t.classes({16}, 10);
    const Tensor losses = t.output({16}), stats = t.output({2, 16});
    const Tensor loss = t.output({}), divisor = t.output({});
    const LossOptions options{.label_smoothing = 0.1};
    const Tensor right = right_targets("cross_entropy", target, 10, options.ignore_index);
    cross_entropy_forward(x, right, options, losses, stats);
    reduce_loss(losses, target, options, loss, divisor);
    cross_entropy_backward(t.input({}), divisor, x, stats, target, options, false,
                           t.output({16, 10}));
    element_loss_forward({ElementLoss::huber, 0.5}, x, t.input({16, 10}), t.output({16, 10}));
  });
}

TEST_P(DeviceKernels, DataKernelsAgreeWithTheHost) {
  expect_like_host([](DeviceTensors& t) {
    const Tensor rows = t.classes({5}, 6), batch = t.output({5, 3, 4, 4});
    const ChannelScale scale{2, t.input({3}), t.input({3})};
    gather_normalise(t.input({6, 3, 4, 4}), rows, scale, batch);
    random_crop(batch, rows, 1, t.input({3}), {.seed = 3});
    random_horizontal_flip(batch, rows, {.seed = 3});
    denormalise(batch, scale);
    gather_rows(t.input({6, 7}), rows, t.output({5, 7}));
    const Tensor counts = t.output({2}, DType::f64);
    const Tensor x = t.input({20, 4}), y = t.input({20, 4});
    const auto correct = count_correct(x, t.classes({20}, 5), 2);  // of which 4 is no class
    counts += static_cast<double>(correct);
    counts += errors_of(x, y).squares;
    EXPECT_GT(correct, 0);
    EXPECT_TRUE(all_finite(x));
    x /= 0.0;
    EXPECT_FALSE(all_finite(x));
  });
}

TEST_P(DeviceKernels, EmbeddingAgreesWithTheHost) {
  expect_like_host([](DeviceTensors& t) {
    const Tensor index = t.classes({4, 9}, 11);
    EXPECT_EQ(embedding_shape(index, t.input({11, 6}), -1), (Shape{4, 9, 6}));
    embedding_forward(index, t.input({11, 6}), t.output({4, 9, 6}));
    embedding_backward(t.input({4, 9, 6}), index, -1, false, t.output({11, 6}));
  });
}

TEST_P(DeviceKernels, PoolsAgreeWithTheHost) {
  expect_like_host([](DeviceTensors& t) {
    const Tensor x = t.input({2, 3, 8, 8}), g = t.input({2, 3, 4, 4});
    const Tensor indices = t.output({2, 3, 4, 4}, DType::i32);
    max_pool2d_forward(x, {2, 2}, t.output({2, 3, 4, 4}), indices);
    max_pool2d_backward(g, indices, {2, 2}, false, t.output({2, 3, 8, 8}));
    avg_pool2d_forward(x, {2, 2}, true, t.output({2, 3, 4, 4}));
    avg_pool2d_backward(g, {2, 2}, true, false, t.output({2, 3, 8, 8}));
  });
}

TEST(DeviceErrors, WrongIndicesAreReportedWhenTheHostWaits) {
  const auto message = [](Device device, const Tensor& index, const Tensor& table) -> std::string {
    try {
      const Tensor right = right_rows(index.to(device), table);
      EXPECT_EQ(right.to_vector<std::int64_t>(), (std::vector<std::int64_t>{1, 0, 0, 2}));
      static_cast<void>(Tensor::zeros({}, DType::f32, device).item());
    } catch (const InputError& error) {
      return error.what();
    }
    return "";
  };
  const Tensor table = Tensor::zeros({3, 2}), wrong = Tensor::from<std::int64_t>({1, 3, -1, 2});
  const Device sim{DeviceType::sim, 0};
  EXPECT_EQ(message(sim, wrong, table),
            "embedding: index 3, number 1 of [4], is outside the table's rows [0, 3)");
  EXPECT_EQ(message(sim, wrong, table), message({}, wrong, table));
  EXPECT_EQ(message(sim, Tensor::from<std::int64_t>({1, 0, 0, 2}), table), "");
  const Tensor ignored = Tensor::from<std::int64_t>({-100, 9, 4}).to(sim);
  static_cast<void>(right_targets("nll_loss", ignored, 10, -100));
  expect_right_indices(sim);
  static_cast<void>(right_targets("nll_loss", ignored, 5, -100));
  EXPECT_THROW(expect_right_indices(sim), InputError);
  expect_right_indices(sim);
}

TEST_P(DeviceKernels, SortOrthonormalizeAndDrawAgreeWithTheHost) {
  expect_like_host([](DeviceTensors& t) {
    const Tensor x = t.input({6, 40}), rows = t.output({6, 40});
    topk_along(x, 1, true, t.output({6, 5}), t.output({6, 5}, DType::i64));
    rows.copy_from(x);
    orthonormalize_rows(rows, {.seed = 3});
    const Tensor p = t.input({6, 40});
    p *= p.clone();
    sample_categories(p, {.seed = 5}, t.output({6}, DType::i64));
    const Tensor counts = t.output({3}, DType::i64);
    counts += 7;
    counts *= 3;
    counts -= 1;
    EXPECT_EQ(counts.to_vector<std::int64_t>(), (std::vector<std::int64_t>{20, 20, 20}));
  });
}

TEST_P(DeviceKernels, HostTasksUseThePrecisionOfTheirCaller) {
  expect_like_host([](DeviceTensors& t) {
    const PrecisionGuard bf16(Precision::bf16);
    linear_forward(t.input({9, 33}), t.input({7, 33}), t.input({7}), t.output({9, 7}));
  });
}

TEST_P(DeviceKernels, GradientClippingAgreesWithTheHost) {
  expect_like_host([](DeviceTensors& t) {
    const Tensor g = t.output({500});
    g.copy_from(t.input({500}));
    clamp(g, 0.2);
    EXPECT_GT(sum_of_squares(g), 0.0);
  });
}

}  // namespace
}  // namespace lockstep
