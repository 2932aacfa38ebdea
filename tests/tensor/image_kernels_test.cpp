// Kernels of padding, other sizes, pools, bags and order on a device, in the cases that no
// operation's test has: accumulation, dilation, equal elements and NaN.
#include <lockstep/base/error.hpp>
#include <lockstep/tensor/kernels/data/categorical.hpp>
#include <lockstep/tensor/kernels/data/index_check.hpp>
#include <lockstep/tensor/kernels/linalg/orthonormalize.hpp>
#include <lockstep/tensor/kernels/pool/pool_nd.hpp>
#include <lockstep/tensor/kernels/reduce/sort.hpp>
#include <lockstep/tensor/kernels/resample/interpolate.hpp>
#include <lockstep/tensor/kernels/resample/pad.hpp>
#include <lockstep/tensor/kernels/resample/pixel_shuffle.hpp>
#include <lockstep/tensor/kernels/resample/resample.hpp>
#include <lockstep/tensor/kernels/sequence/embedding_bag.hpp>

#include <support/gpu_stand_in.hpp>

#include "device_tensors.hpp"

namespace lockstep {
namespace {

using test::DeviceTensors;

/// By the kernels of a GPU. Compilers may contract their products and sums otherwise than those of
/// the host's loops.
class ImageKernels : public test::DeviceKernels {
 protected:
  static void expect_like_host(test::DeviceKernel kernel) {
    const test::GpuStandIn gpu;
    test::DeviceKernels::expect_like_host(kernel, 0x1p-21);
  }
};

INSTANTIATE_TEST_SUITE_P(Devices, ImageKernels, testing::ValuesIn(test::devices_to_test()),
                         test::name_of_device_case);

void pad_both_ways(DeviceTensors& t, const Shape& from, const Shape& to, const PadAmounts& amounts,
                   PadMode mode) {
  pad_forward(t.input(from), amounts, mode, 0.5, t.output(to));
  const Tensor gradient = t.output(from);
  pad_backward(t.input(to), amounts, mode, false, gradient);
  pad_backward(t.input(to), amounts, mode, true, gradient);
}

TEST_P(ImageKernels, PaddingAgreesWithTheHost) {
  expect_like_host([](DeviceTensors& t) {
    const PadAmounts amounts{.before = {2, 1, 3, 1}, .behind = {1, 2, 3, 0}};
    for (const PadMode mode :
         {PadMode::constant, PadMode::reflect, PadMode::replicate, PadMode::circular}) {
      pad_both_ways(t, {2, 4, 3, 5}, {3, 10, 6, 8}, amounts, mode);
      pad_both_ways(t, {3, 2, 5}, {3, 2, 9}, {.before = {4}}, mode);
    }
    pad_both_ways(t, {1, 1}, {3, 4}, {.before = {3, 0}, .behind = {0, 2}}, PadMode::replicate);
    pad_both_ways(t, {4, 5}, {3, 4}, {.before = {-2, 1}, .behind = {1, -2}}, PadMode::constant);
    pad_both_ways(t, {2, 0, 3}, {2, 2, 5}, {.before = {1, 1}, .behind = {1, 1}}, PadMode::constant);
  });
}

TEST_P(ImageKernels, PixelShuffleAgreesWithTheHost) {
  expect_like_host([](DeviceTensors& t) {
    for (const std::int64_t r : {2, 3}) {
      const Shape parts{2, r, r, 4, 3}, planes{2, 4 * r, 3 * r};
      for (const Shape& shape : {parts, planes}) {
        const Tensor y = t.output(shape);
        const bool shuffle = shape == planes;
        for (const bool accumulate : {false, true}) {
          const Tensor x = t.input(shuffle ? parts : planes);
          shuffle ? pixel_shuffle_copy(x, accumulate, y) : pixel_unshuffle_copy(x, accumulate, y);
        }
      }
    }
  });
}

/// x[2, from...] as y[2, to...].
void nearest_both_ways(DeviceTensors& t, const Shape& from, const Shape& to, const Ratios& ratios) {
  nearest_forward(t.input(from), ratios, t.output(to));
  const Tensor gradient = t.output(from);
  nearest_backward(t.input(to), ratios, false, gradient);
  nearest_backward(t.input(to), ratios, true, gradient);
}

TEST_P(ImageKernels, NearestElementsAgreeWithTheHost) {
  expect_like_host([](DeviceTensors& t) {
    nearest_both_ways(t, {2, 3, 4, 5}, {2, 5, 7, 13}, {3 / 5.0, 4 / 7.0, 5 / 13.0});
    nearest_both_ways(t, {2, 5, 7, 6}, {2, 3, 4, 12}, {5 / 3.0, 7 / 4.0, 0.5});
    // Pairs of columns, though the extent is not doubled; and rows with one source each slice.
    nearest_both_ways(t, {2, 3, 1, 5}, {2, 8, 3, 8}, {3 / 8.0, 1 / 3.0, 1 / 1.79});
    nearest_both_ways(t, {2, 2, 3, 4}, {2, 7, 1, 8}, {2 / 7.0, 3.0, 0.5});
  });
}

TEST_P(ImageKernels, LinesBetweenElementsAgreeWithTheHost) {
  expect_like_host([](DeviceTensors& t) {
    for (const Shape& to : {Shape{2, 1, 11, 13}, Shape{2, 1, 3, 2}, Shape{2, 1, 5, 1}}) {
      for (const bool align_corners : {false, true}) {
        const Shape from{2, 1, 5, 4};
        const Ratios ratios{1.0, 5.0 / static_cast<double>(to[2]),
                            4.0 / static_cast<double>(to[3])};
        bilinear_forward(t.input(from), ratios, align_corners, t.output(to));
        const Tensor gradient = t.output(from);
        bilinear_backward(t.input(to), ratios, align_corners, false, gradient);
        bilinear_backward(t.input(to), ratios, align_corners, true, gradient);
      }
    }
  });
}

TEST_P(ImageKernels, ResamplingAgreesWithTheHost) {
  expect_like_host([](DeviceTensors& t) {
    for (const Taps taps : {Taps::linear, Taps::cubic}) {
      for (const std::int64_t n : {1, 2, 7}) {
        for (const std::int64_t m : {1, 3, 7, 16}) {
          for (const bool align_corners : {false, true}) {
            const double ratio = static_cast<double>(n) / static_cast<double>(m);
            const Resampling how{taps, ratio, align_corners};
            resample_forward(t.input({2, n, 3}), how, t.output({2, m, 3}));
            const Tensor gradient = t.output({2, n, 3});
            resample_backward(t.input({2, m, 3}), how, false, gradient);
            resample_backward(t.input({2, m, 3}), how, true, gradient);
          }
        }
      }
    }
  });
}

TEST_P(ImageKernels, PoolsAgreeWithTheHost) {
  expect_like_host([](DeviceTensors& t) {
    const Shape in{3, 5, 9, 8};
    const auto pool_both_ways = [&](const PoolWindow& window, const Shape& out) {
      const Tensor indices = t.output(out, DType::i32), gradient = t.output(in);
      max_pool_forward(t.ties(in), window, t.output(out), indices);
      max_pool_backward(t.input(out), indices, window, false, gradient);
      max_pool_backward(t.input(out), indices, window, true, gradient);
    };
    const PoolWindow oblong{.kernel = {2, 3, 4}, .stride = {1, 2, 1}, .padding = {1, 1, 2}};
    const Shape out{3, 6, 5, 9};
    pool_both_ways(oblong, out);
    pool_both_ways({.kernel = {2, 3, 2}, .stride = {1, 2, 1}, .padding = 1, .dilation = {2, 1, 3}},
                   {3, 5, 5, 7});
    for (const AveragePool& pool : {AveragePool{oblong, true, 0}, AveragePool{oblong, false, 0},
                                    AveragePool{oblong, true, 7}}) {
      avg_pool_forward(t.input(in), pool, t.output(out));
      const Tensor gradient = t.output(in);
      avg_pool_backward(t.input(out), pool, false, gradient);
      avg_pool_backward(t.input(out), pool, true, gradient);
    }
  });
}

TEST_P(ImageKernels, AdaptivePoolsAgreeWithTheHost) {
  expect_like_host([](DeviceTensors& t) {
    const Shape in{3, 5, 9, 8};
    for (const Shape& out : {Shape{3, 3, 4, 5}, Shape{3, 7, 10, 8}, Shape{3, 1, 1, 1}}) {
      const Tensor indices = t.output(out, DType::i32);
      adaptive_max_pool_forward(t.ties(in), t.output(out), indices);
      adaptive_avg_pool_forward(t.input(in), t.output(out));
      const Tensor of_max = t.output(in), of_avg = t.output(in);
      for (const bool accumulate : {false, true}) {
        adaptive_max_pool_backward(t.input(out), indices, accumulate, of_max);
        adaptive_avg_pool_backward(t.input(out), accumulate, of_avg);
      }
    }
  });
}

TEST_P(ImageKernels, BagsAgreeWithTheHost) {
  expect_like_host([](DeviceTensors& t) {
    const Tensor index = t.integers({3, 3, 5, 0, 3, 5, 2, 2, 3, 0, 6, 3});
    const Tensor offsets = t.integers({0, 0, 4, 9, 9, 12});  // three bags are empty
    const Tensor table = t.ties({7, 70}), numbers = t.input({7, 70});
    for (const BagMode mode : {BagMode::sum, BagMode::mean, BagMode::max}) {
      for (const std::int64_t padding_idx : {-1, 3}) {
        Bags bags{.index = index, .offsets = offsets, .mode = mode, .padding_idx = padding_idx};
        if (mode == BagMode::sum) bags.per_sample_weights = t.input({12});
        const bool is_max = mode == BagMode::max;
        const Tensor chosen = is_max ? t.output({6, 70}, DType::i64) : Tensor();
        embedding_bag_forward(bags, is_max ? table : numbers, t.output({6, 70}), chosen);
        const Tensor gradient = t.output({7, 70}), of_weights = t.output({12});
        for (const bool accumulate : {false, true}) {
          const Tensor g = t.input({6, 70});
          embedding_bag_backward_weight(bags, g, chosen, accumulate, gradient);
          if (mode != BagMode::sum) continue;
          embedding_bag_backward_per_sample_weights(bags, g, numbers, accumulate, of_weights);
        }
      }
    }
  });
}

TEST_P(ImageKernels, OrderAgreesWithTheHost) {
  expect_like_host([](DeviceTensors& t) {
    for (const std::int64_t width : {1, 2, 31, 32, 33, 64, 95, 300}) {
      const Shape shape{2, width, 3};
      const Tensor x = t.ties(shape), numbers = t.input(shape);
      for (const bool descending : {false, true}) {
        sort_along(x, 1, descending, t.output(shape), t.output(shape, DType::i64));
        sort_along(numbers, 1, descending, t.output(shape), t.output(shape, DType::i64));
        for (const std::int64_t k : {1, 2, 40, 200}) {
          if (k > width) continue;
          const Shape top{2, k, 3};
          const Tensor indices = t.output(top, DType::i64), gradient = t.output(shape);
          topk_along(x, 1, descending, t.output(top), indices);
          scatter_along(t.input(top), indices, 1, false, gradient);
          scatter_along(t.input(top), indices, 1, true, gradient);
        }
      }
    }
    sort_along(t.ties({100}), 0, false, t.output({100}), t.output({100}, DType::i64));
  });
}

TEST_P(ImageKernels, LostRowsAgreeWithTheHost) {
  expect_like_host([](DeviceTensors& t) {
    const Tensor cleared = t.output({5, 70}), drawn = t.output({5, 70});
    cleared.copy_from(t.input({5, 70}));
    cleared.slice(2, 3).copy_from(cleared.slice(0, 1));
    cleared.slice(4, 5).zero();
    drawn.copy_from(cleared);
    orthonormalize_rows(cleared);
    orthonormalize_rows(drawn, {.seed = 3, .stream = 1, .step = 2});
  });
}

/// What is thrown for weights of which row 2 is wrong, at once or when the host waits.
std::string refusal_of_weights(Device device) {
  const Tensor p = Tensor::from<float>({1, 2, 0, 1, -1, 2, 3, 4}, {4, 2}).to(device);
  const Tensor y = Tensor::zeros({4}, DType::i64, device);
  try {
    sample_categories(p, {.seed = 5}, y);
    EXPECT_EQ(y.to_vector<std::int64_t>()[2], 0);
    expect_right_indices(device);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

TEST_P(ImageKernels, WeightsThatCannotBeSampledFromAreReportedWhenTheHostWaits) {
  const std::string told = refusal_of_weights({});
  EXPECT_EQ(told.substr(0, told.find(':')), "categories cannot be sampled from row 2");
  EXPECT_EQ(refusal_of_weights(GetParam()), told);
  expect_right_indices(GetParam());
}

}  // namespace
}  // namespace lockstep
