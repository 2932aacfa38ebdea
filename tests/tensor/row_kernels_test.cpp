// softmax, log_softmax, cross_entropy and cumsum by the kernels of a GPU, against the host's: rows
// in packs, with elements before and behind them, rows too short for packs, and memory that is not
// aligned.
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>
#include <tuple>
#include <vector>

#include <lockstep/tensor/kernels/loss/loss.hpp>
#include <lockstep/tensor/kernels/loss/vocabulary_slab.hpp>
#include <lockstep/tensor/kernels/reduce/cumsum.hpp>
#include <lockstep/tensor/kernels/reduce/softmax.hpp>

#include "like_host.hpp"

namespace lockstep {
namespace {

using test::KernelTensors;

class RowKernels : public test::LikeHost {};
INSTANTIATE_TEST_SUITE_P(Devices, RowKernels, test::devices_and_dtypes(), test::name_of_case);

const std::vector<Shape> batches_of_rows{{3, 5},   {2, 1},    {4, 128}, {3, 129},   {5, 135},
                                         {2, 256}, {3, 1031}, {0, 200}, {2, 3, 140}};

TEST_P(RowKernels, SoftmaxOfRowsIsTheHosts) {
  for (const Shape& shape : batches_of_rows) {
    SCOPED_TRACE(to_string(shape));
    expect_like_host([&](KernelTensors& t) {
      const Tensor x = t.input(shape);
      softmax_forward(x, -1, t.output(shape));
      log_softmax_forward(x, -1, t.output(shape));
    });
    for (const bool accumulate : {false, true}) {
      expect_like_host(
          [&](KernelTensors& t) {
            const Tensor g = t.input(shape, 1.5), y = t.input(shape, -1.5);
            softmax_backward(g, y, -1, accumulate, t.output(shape));
            log_softmax_backward(g, y, -1, accumulate, t.output(shape));
          },
          test::sum_of_a_thread);
    }
  }
}

TEST_P(RowKernels, SoftmaxOfRowsWithInfinitiesAndNanIsTheHosts) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  constexpr std::int64_t rows = 6, width = 517;
  expect_like_host([&](KernelTensors& t) {
    const Tensor x = t.input({rows, width});
    const auto fill = [&](std::int64_t row, std::int64_t begin, std::int64_t end, double value) {
      x.reshape({rows * width}).slice(row * width + begin, row * width + end).fill(value);
    };
    fill(0, 0, 300, -infinity);
    fill(1, 200, 517, -infinity);
    fill(2, 0, 516, -infinity);
    fill(3, 0, 517, -infinity);
    fill(4, 100, 101, infinity);
    fill(5, 100, 101, std::numeric_limits<double>::quiet_NaN());
    softmax_forward(x, -1, t.output({rows, width}));
    log_softmax_forward(x, -1, t.output({rows, width}));
  });
}

TEST_P(RowKernels, CumsumOfFewLongRowsIsTheHosts) {
  if (is_half(std::get<1>(GetParam()))) return;  // widened before
  for (const Shape& shape : {Shape{5000, 1}, Shape{2, 70000}, Shape{3, 4097, 2}}) {
    SCOPED_TRACE(to_string(shape));
    for (const bool reverse : {false, true}) {
      for (const bool accumulate : {false, true}) {
        expect_like_host(
            [&](KernelTensors& t) {
              cumsum(t.input(shape, 0.01), shape[0] == 5000 ? 0 : 1, reverse, accumulate,
                     t.output(shape));
            },
            test::sum_of_a_thread);
      }
    }
  }
}

TEST_P(RowKernels, SoftmaxAlongOtherDimensionsIsTheHosts) {
  for (const Shape& shape : {Shape{2, 140, 3}, Shape{2, 140, 1}, Shape{140, 2}}) {
    SCOPED_TRACE(to_string(shape));
    expect_like_host([&](KernelTensors& t) {
      const int dim = shape[0] == 140 ? 0 : 1;
      const Tensor x = t.input(shape), g = t.input(shape, 1.5);
      softmax_forward(x, dim, t.output(shape));
      log_softmax_forward(x, dim, t.output(shape));
      softmax_backward(g, x, dim, false, t.output(shape));
      log_softmax_backward(g, x, dim, false, t.output(shape));
    });
  }
}

TEST_P(RowKernels, RowsThatAreNotAlignedAreTheHosts) {
  expect_like_host([&](KernelTensors& t) {
    const Tensor x = t.unaligned({3, 200}), g = t.input({3, 200}, 1.5);
    softmax_forward(x, 1, t.output({3, 200}));
    softmax_backward(g, x, 1, false, t.output({3, 200}));
    log_softmax_backward(x, g, 1, true, t.output({3, 200}));
  });
}

/// Classes of `rows` rows, two of them ignored.
Tensor targets(std::int64_t rows, std::int64_t classes, Device device) {
  std::vector<std::int64_t> chosen(static_cast<std::size_t>(rows));
  for (std::size_t r = 0; r < chosen.size(); ++r) {
    chosen[r] = r % 4 == 2 ? -100 : static_cast<std::int64_t>(r * 37) % classes;
  }
  return Tensor::from(chosen, {rows}).to(device);
}

TEST_P(RowKernels, CrossEntropyIsTheHosts) {
  for (const std::int64_t classes : {5, 128, 131, 517}) {
    for (const double smoothing : {0.0, 0.1}) {
      for (const bool weighted : {false, true}) {
        for (const bool accumulate : {false, true}) {
          SCOPED_TRACE(std::to_string(classes) + " classes, smoothing " +
                       std::to_string(smoothing) + (weighted ? ", weighted" : "") +
                       (accumulate ? ", accumulating" : ""));
          expect_like_host([&](KernelTensors& t) {
            const Shape shape{7, classes};
            LossOptions options;
            options.reduction = Reduction::none;
            options.label_smoothing = smoothing;
            if (weighted) options.class_weight = t.positive({classes});
            const Tensor x = t.input(shape);
            const Tensor target = targets(7, classes, x.device());
            const Tensor stats = t.parameter_output({2, 7});
            cross_entropy_forward(x, target, options, t.parameter_output({7}), stats);
            cross_entropy_backward(t.positive({7}), {}, x, stats, target, options, accumulate,
                                   t.output(shape));
          });
        }
      }
    }
  }
}

TEST_P(RowKernels, TheGradientOfCrossEntropyMayReplaceTheLogits) {
  expect_like_host([&](KernelTensors& t) {
    LossOptions options;
    options.reduction = Reduction::none;
    const Tensor x = t.output({7, 301});
    const Tensor target = targets(7, 301, x.device());
    const Tensor stats = t.parameter_output({2, 7});
    cross_entropy_forward(x, target, options, t.parameter_output({7}), stats);
    cross_entropy_backward(t.positive({7}), {}, x, stats, target, options, false, x);
  });
}

TEST_P(RowKernels, CrossEntropyOfASlabOfClassesIsTheHosts) {
  for (const bool weighted : {false, true}) {
    expect_like_host([&](KernelTensors& t) {
      const ClassSlab slab{.first = 130, .count = 141, .classes = 400};
      LossOptions options;
      options.reduction = Reduction::none;
      options.label_smoothing = 0.1;
      if (weighted) options.class_weight = t.positive({400});
      const Tensor x = t.input({9, 141});
      cross_entropy_slab_backward(t.positive({9}), {}, x, t.positive({2, 9}),
                                  targets(9, 400, x.device()), slab, options, false,
                                  t.output({9, 141}));
    });
  }
}

TEST_P(RowKernels, CrossEntropyOfImagesIsTheHosts) {
  for (const Shape& shape : {Shape{2, 140, 2, 3}, Shape{3, 140, 1, 1}}) {
    expect_like_host([&](KernelTensors& t) {
      LossOptions options;
      options.reduction = Reduction::none;
      const Shape places{shape[0], shape[2], shape[3]};
      const std::int64_t rows = places.numel();
      const Tensor x = t.input(shape);
      const Tensor target = targets(rows, 140, x.device()).reshape(places);
      const Tensor stats = t.parameter_output({2, rows});
      cross_entropy_forward(x, target, options, t.parameter_output(places), stats);
      cross_entropy_backward(t.positive(places), {}, x, stats, target, options, false,
                             t.output(shape));
    });
  }
}

}  // namespace
}  // namespace lockstep
