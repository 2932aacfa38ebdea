// Normalisation and sums over channels by the kernels of a GPU, against the host's: every shape
// that they treat in its own way, every dtype, every combination of options.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <lockstep/tensor/kernels/channel_parts.hpp>
#include <lockstep/tensor/kernels/conv/conv2d.hpp>
#include <lockstep/tensor/kernels/divisor.hpp>
#include <lockstep/tensor/kernels/norm/batch_norm.hpp>
#include <lockstep/tensor/kernels/norm/norm.hpp>
#include <lockstep/tensor/kernels/norm/sync_batch_norm.hpp>
#include <lockstep/tensor/tensor.hpp>

#include "like_host.hpp"

namespace lockstep {
namespace {

using test::KernelTensors;

class NormKernels : public test::LikeHost {};
INSTANTIATE_TEST_SUITE_P(Devices, NormKernels, test::devices_and_dtypes(), test::name_of_case);

// Packs of 4; planes that are no multiple of 4; columns, of one position and of several; one
// sample; several parts of a channel, in packs and across samples.
const std::vector<Shape> batches{{6, 5, 4, 4},   {3, 5, 7, 7}, {70, 12},
                                 {1100, 3},      {9, 3, 2, 2}, {1, 2, 64, 160},
                                 {7, 1, 31, 41}, {16, 40, 16}, {40, 2, 3}};
// Of more than 64 parts, which a team joins.
const std::vector<Shape> large_batches{{300, 1, 10, 100}, {1100, 1, 2, 2}};

struct Options {
  bool relu, residual, accumulate;
};
const std::vector<Options> options{{false, false, false}, {true, false, false},
                                   {false, true, true},   {true, true, false},
                                   {true, true, true},    {false, false, true}};

std::string in_words(const Shape& shape, const Options& o, bool training) {
  return to_string(shape) + (o.relu ? ", relu" : "") + (o.residual ? ", residual" : "") +
         (o.accumulate ? ", accumulating" : "") + (training ? ", training" : "");
}

void normalise(KernelTensors& t, const Tensor& x, const Options& o, bool training) {
  const Shape channels{x.size(1)};
  const BatchNormInputs inputs{.x = x,
                               .weight = t.parameter(channels),
                               .bias = t.parameter(channels),
                               .running_mean = t.parameter_output(channels),
                               .running_var = t.positive(channels),
                               .residual = o.residual ? t.input(x.shape()) : Tensor(),
                               .relu = o.relu};
  const BatchNormSaved saved{t.parameter_output(channels), t.parameter_output(channels)};
  batch_norm_forward(inputs, training, 0.1, 1e-5, t.output(x.shape()), saved);
  t.parameter_output(channels).copy_from(inputs.running_var);
}

TEST_P(NormKernels, BatchNormForwardIsTheHosts) {
  for (const Shape& shape : batches) {
    for (const Options& o : options) {
      for (const bool training : {false, true}) {
        SCOPED_TRACE(in_words(shape, o, training));
        expect_like_host([&](KernelTensors& t) { normalise(t, t.input(shape), o, training); });
      }
    }
  }
}

TEST_P(NormKernels, BatchNormTakesTensorsThatAreNotAligned) {
  for (const bool training : {false, true}) {
    expect_like_host([&](KernelTensors& t) {
      normalise(t, t.unaligned({6, 5, 4, 4}), {true, true, false}, training);
    });
  }
}

void differentiate(KernelTensors& t, const Shape& shape, const Options& o, bool training,
                   bool want_x = true, bool want_parameters = true) {
  const Shape channels{shape[1]};
  const BatchNormInputs inputs{.x = t.input(shape),
                               .weight = t.parameter(channels),
                               .bias = t.parameter(channels),
                               .relu = o.relu};
  // Sums of terms that do not cancel: host and device round different ones.
  const BatchNormSaved saved{t.positive(channels), t.positive(channels)};
  const Tensor grad_y = t.input(shape, 1.5);
  BatchNormGradients gradients;
  if (want_x) gradients.x = t.output(shape);
  if (o.residual) gradients.residual = t.output(shape);
  if (want_parameters) gradients.weight = t.parameter_output(channels);
  if (want_parameters) gradients.bias = t.parameter_output(channels);
  gradients.accumulate_x = gradients.accumulate_residual = o.accumulate;
  gradients.accumulate_weight = gradients.accumulate_bias = o.accumulate;
  batch_norm_backward(inputs, training, saved, t.input(shape), grad_y, gradients);
}

TEST_P(NormKernels, BatchNormBackwardIsTheHosts) {
  for (const Shape& shape : batches) {
    for (const Options& o : options) {
      for (const bool training : {false, true}) {
        SCOPED_TRACE(in_words(shape, o, training));
        expect_like_host([&](KernelTensors& t) { differentiate(t, shape, o, training); });
      }
    }
  }
}

TEST_P(NormKernels, ManyPartsOfAChannelAreJoinedByATeam) {
  for (const Shape& shape : large_batches) {
    SCOPED_TRACE(to_string(shape));
    expect_like_host([&](KernelTensors& t) { normalise(t, t.input(shape), options[0], true); });
    expect_like_host([&](KernelTensors& t) { differentiate(t, shape, options[0], true); });
  }
}

TEST_P(NormKernels, TheGradientOfAConvolutionsBiasIsTheHosts) {
  for (const Shape& shape :
       {Shape{6, 5, 4, 4}, Shape{3, 5, 7, 7}, Shape{70, 12, 1, 1}, Shape{9, 3, 2, 2},
        Shape{1, 2, 64, 160}, Shape{300, 1, 10, 100}, Shape{1100, 1, 2, 2}, Shape{0, 3, 2, 2}}) {
    for (const bool accumulate : {false, true}) {
      SCOPED_TRACE(to_string(shape) + (accumulate ? ", accumulating" : ""));
      expect_like_host([&](KernelTensors& t) {
        const Tensor grad_y = t.input(shape, 1.5);
        conv2d_backward_bias(grad_y, accumulate, t.output({shape[1]}));
        conv2d_backward_bias(grad_y, accumulate, t.parameter_output({shape[1]}));
      });
    }
  }
  expect_like_host([&](KernelTensors& t) {
    conv2d_backward_bias(t.unaligned({6, 5, 4, 4}), false, t.output({5}));
  });
}

TEST_P(NormKernels, BatchNormBackwardWritesWhatIsWanted) {
  for (const bool training : {false, true}) {
    for (const Options& o : options) {
      for (const Shape& shape : {Shape{6, 5, 4, 4}, Shape{70, 12}}) {
        SCOPED_TRACE(in_words(shape, o, training));
        expect_like_host(
            [&](KernelTensors& t) { differentiate(t, shape, o, training, true, false); });
        expect_like_host([&](KernelTensors& t) { differentiate(t, shape, o, training, false); });
      }
    }
  }
}

TEST_P(NormKernels, XAndTheResidualMayShareAGradient) {
  for (const bool accumulate : {false, true}) {
    expect_like_host([&](KernelTensors& t) {
      const Shape shape{6, 5, 4, 4};
      const BatchNormInputs inputs{
          .x = t.input(shape), .weight = t.parameter({5}), .bias = t.parameter({5})};
      const Tensor both = t.output(shape);
      batch_norm_backward(
          inputs, true, {t.parameter({5}), t.positive({5})}, Tensor(), t.input(shape),
          {.x = both, .residual = both, .accumulate_x = true, .accumulate_residual = accumulate});
    });
  }
}

TEST_P(NormKernels, BatchNormOfNothingGivesZeroGradients) {
  for (const Shape& shape : {Shape{0, 3, 4, 4}, Shape{0, 3}, Shape{2, 3, 0}}) {
    SCOPED_TRACE(to_string(shape));
    expect_like_host([&](KernelTensors& t) { differentiate(t, shape, {true, true, false}, true); });
    expect_like_host([&](KernelTensors& t) { normalise(t, t.input(shape), options[0], true); });
  }
}

TEST_P(NormKernels, StatisticsOfARankAndTheirGradientsAreTheHosts) {
  for (const Shape& shape : batches) {
    SCOPED_TRACE(to_string(shape));
    for (const bool accumulate : {false, true}) {
      expect_like_host([&](KernelTensors& t) {
        const std::int64_t c = shape[1];
        // f64, but of values that are subtracted in the sums' type.
        const Tensor part = t.input({1 + 2 * c}).to(DType::f64);
        const Tensor x = t.input(shape);
        batch_norm_statistics(x, part);
        t.parameter_output({1 + 2 * c}).copy_from(part.to(t.of_parameters()));
        const BatchNormInputs inputs{
            .x = x, .weight = t.parameter({c}), .bias = t.parameter({c}), .relu = accumulate};
        const Tensor count = Tensor::full({1}, 1e4, DType::f64, x.device());
        sync_batch_norm_backward(inputs, {t.parameter({c}), t.positive({c})}, t.input(shape),
                                 t.input(shape), t.parameter({2, c}), count, t.output(shape),
                                 accumulate);
      });
    }
  }
}

/// Biased variances of x[N, C, P] by the kernels of `device`.
std::vector<double> variances(const Tensor& x) {
  const std::int64_t c = x.size(1);
  const Tensor part = Tensor::zeros({1 + 2 * c}, DType::f64, x.device());
  batch_norm_statistics(x, part);
  return part.slice(1 + c, 1 + 2 * c).to_vector<double>();
}

TEST(BatchNormStatistics, KeepTheirDigitsFarFromZeroAndBesideAnOutlier) {
  const test::GpuStandIn gpu;
  for (const Device device : test::devices_to_test()) {
    for (const Shape& shape : {Shape{2, 1, 4096}, Shape{8192, 1}}) {
      std::vector<float> values(8192);
      for (std::size_t i = 0; i < values.size(); ++i)
        values[i] = 4096.0F + static_cast<float>(i % 2);  // variance 1/4
      EXPECT_NEAR(variances(Tensor::from(values, shape).to(device))[0], 0.25, 1e-9);
      values[0] = 1e6F;
      const double n = 8192, distance = 1e6 - 4096.5;
      const double expected = 0.25 * (n - 1) / n + distance * distance * (n - 1) / (n * n);
      EXPECT_NEAR(variances(Tensor::from(values, shape).to(device))[0], expected, 2e-6 * expected);
    }
  }
}

// One block of rows; several, of which the last is shorter; so many that they are added up twice;
// parameters of several dimensions; no rows.
const std::vector<std::pair<Shape, Shape>> rows{
    {{12, 80}, {80}}, {{1, 1}, {1}},       {{40, 3, 11}, {3, 11}}, {{700, 33}, {33}},
    {{9000, 5}, {5}}, {{3, 2000}, {2000}}, {{0, 8}, {8}}};

struct Wanted {
  bool x, weight, bias, accumulate;
};
const std::vector<Wanted> all_wanted{{true, true, true, false},   {true, true, true, true},
                                     {true, false, false, false}, {true, false, false, true},
                                     {false, true, false, true},  {false, false, true, false}};

NormGradients gradients_of(KernelTensors& t, const Shape& x, const Shape& weight, const Wanted& w) {
  NormGradients gradients;
  if (w.x) gradients.x = t.output(x);
  if (w.weight) gradients.weight = t.parameter_output(weight);
  if (w.bias) gradients.bias = t.parameter_output(weight);
  gradients.accumulate_x = gradients.accumulate_weight = gradients.accumulate_bias = w.accumulate;
  return gradients;
}

TEST_P(NormKernels, LayerNormBackwardIsTheHosts) {
  for (const auto& [shape, of_weight] : rows) {
    for (const Wanted& wanted : all_wanted) {
      SCOPED_TRACE(to_string(shape));
      expect_like_host(
          [&, &x = shape, &w = of_weight](KernelTensors& t) {
            const Tensor weight = t.parameter(w), grad_y = t.input(x, 1.5);
            const Shape one = norm_rows(grad_y, weight);
            layer_norm_backward(grad_y, t.input(x), weight, t.positive(one), t.positive(one),
                                gradients_of(t, x, w, wanted));
          },
          test::sum_of_a_thread);
    }
  }
}

TEST_P(NormKernels, RmsNormBackwardIsTheHosts) {
  for (const auto& [shape, of_weight] : rows) {
    for (Wanted wanted : all_wanted) {
      if (!wanted.x && !wanted.weight) continue;
      wanted.bias = false;
      SCOPED_TRACE(to_string(shape));
      expect_like_host(
          [&, &x = shape, &w = of_weight](KernelTensors& t) {
            const Tensor weight = t.parameter(w), grad_y = t.input(x, 1.5);
            rms_norm_backward(grad_y, t.input(x, 1.5), weight,
                              t.positive(norm_rows(grad_y, weight)), gradients_of(t, x, w, wanted));
          },
          test::sum_of_a_thread);
    }
  }
}

TEST(ChannelParts, FillAGpuWithoutBecomingShort) {
  for (const Shape& shape : {Shape{256, 64, 1024}, Shape{256, 128, 256}, Shape{256, 256, 64},
                             Shape{64, 3, 224 * 224}, Shape{64, 2048, 49}, Shape{1, 8, 1 << 20}}) {
    SCOPED_TRACE(to_string(shape));
    const detail::ChannelParts parts(shape, 4);
    EXPECT_FALSE(parts.by_columns);
    EXPECT_GE(parts.count(), 1000);
    EXPECT_LE(parts.count(), 4096);
    EXPECT_GE(parts.length, 2048);
  }
  // A channel of fewer values is one part.
  EXPECT_EQ(detail::ChannelParts({256, 512, 16}, 4).count(), 512);
  const detail::ChannelParts columns({65536, 512, 1}, 4);
  EXPECT_TRUE(columns.by_columns);
  EXPECT_GE(columns.count(), 1 << 16);
}

TEST(ChannelParts, ContainEveryValueOnceAtPlacesOfTheirOwn) {
  for (const Shape& batch :
       std::vector<Shape>{{6, 5, 16}, {1, 2, 10240}, {7, 1, 1271}, {1100, 3}}) {
    const Shape shape{batch[0], batch[1], batch.numel() / (batch[0] * batch[1])};
    SCOPED_TRACE(to_string(shape));
    const detail::ChannelParts parts(shape, 4);
    std::vector<int> uses(static_cast<std::size_t>(parts.count()), 0);
    for (std::int64_t c = 0; c < shape[1]; ++c) {
      std::int64_t values = 0;
      for (std::int64_t i = 0; i < parts.of_a_channel(); ++i) {
        EXPECT_GT(parts.values_of(i), 0);
        values += parts.values_of(i);
        ++uses.at(static_cast<std::size_t>(parts.index(c, i)));
      }
      EXPECT_EQ(values, shape[0] * shape[2]);
    }
    EXPECT_EQ(uses, std::vector<int>(uses.size(), 1));
  }
}

TEST(Divisor, DividesLikeTheOperator) {
  constexpr std::int64_t end = 1LL << 31;
  for (const std::int64_t largest : {end - 1, end * end}) {
    for (const std::int64_t d :
         {std::int64_t{1}, std::int64_t{2}, std::int64_t{3}, std::int64_t{7}, std::int64_t{49},
          std::int64_t{641}, std::int64_t{1} << 20, (std::int64_t{1} << 30) + 1, end - 1}) {
      const detail::Divisor divisor(d, largest);
      for (const std::int64_t near : {std::int64_t{0}, d, 2 * d, 1000 * d, end / d * d, end - 1}) {
        for (std::int64_t n = near - 2; n <= near + 2; ++n) {
          if (n < 0 || n > largest) continue;
          EXPECT_EQ(divisor.quotient(n), n / d) << n << " / " << d;
          EXPECT_EQ(divisor.remainder(n), n % d) << n << " % " << d;
        }
      }
    }
  }
}

}  // namespace
}  // namespace lockstep
