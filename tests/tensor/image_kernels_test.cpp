// Kernels of padding, other sizes, pools, bags and order on a device, in the cases that no
// operation's test has: accumulation, dilation, equal elements and NaN.
#include <lockstep/tensor/kernels/resample/pad.hpp>
#include <lockstep/tensor/kernels/resample/pixel_shuffle.hpp>

#include "device_tensors.hpp"

namespace lockstep {
namespace {

using test::DeviceTensors;

class ImageKernels : public test::DeviceKernels {};

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

}  // namespace
}  // namespace lockstep
