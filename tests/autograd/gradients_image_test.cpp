// Backward against central differences in double: convolutions of 1 and 3 dimensions, transposed
// ones, pools, norms over channels, other extents.
#include <gtest/gtest.h>

#include <lockstep/autograd/functional/arithmetic.hpp>
#include <lockstep/autograd/functional/conv_nd.hpp>
#include <lockstep/autograd/functional/group_norm.hpp>
#include <lockstep/autograd/functional/pool.hpp>
#include <lockstep/autograd/functional/resample.hpp>

#include "gradient_check.hpp"

namespace lockstep::test {
namespace {

using V = std::vector<Variable>;

TEST(ConvNdGradient, AgreesWithCentralDifferencesAlsoWhereUsedTwice) {
  for (const Conv1dOptions& o :
       {Conv1dOptions{}, Conv1dOptions{2, 1, 2, 1}, Conv1dOptions{1, 2, 1, 2}}) {
    expect_gradients(
        [&](const V& v) { return conv1d(v[0], v[1], v[2], o) + conv1d(v[0], v[1], v[2], o); },
        {random_tensor({2, 4, 9}, 1), random_tensor({2, 4 / o.groups, 3}, 2),
         random_tensor({2}, 3)});
  }
  for (const Conv3dOptions& o :
       {Conv3dOptions{}, Conv3dOptions{{2, 1, 2}, {1, 1, 0}, {1, 2, 1}, 2}}) {
    expect_gradients(
        [&](const V& v) { return conv3d(v[0], v[1], v[2], o) + conv3d(v[0], v[1], {}, o); },
        {random_tensor({2, 2, 4, 5, 3}, 1), random_tensor({2, 2 / o.groups, 2, 3, 2}, 2),
         random_tensor({2}, 3)});
  }
}

TEST(ConvTransposeGradient, AgreesWithCentralDifferencesAlsoWhereUsedTwice) {
  const ConvTransposeOptions<1> odd1{{3}, {1}, {1}, {2}, 2};
  expect_gradients(
      [&](const V& v) {
        return conv_transpose1d(v[0], v[1], v[2], odd1) + conv_transpose1d(v[0], v[1], v[2], odd1);
      },
      {random_tensor({2, 4, 5}, 1), random_tensor({4, 1, 3}, 2), random_tensor({2}, 3)});
  for (const ConvTransposeOptions<2>& o :
       {ConvTransposeOptions<2>{}, ConvTransposeOptions<2>{{2, 3}, {1, 0}, {1, 2}, {1, 1}, 2}}) {
    expect_gradients(
        [&](const V& v) {
          return conv_transpose2d(v[0], v[1], v[2], o) + conv_transpose2d(v[0], v[1], {}, o);
        },
        {random_tensor({2, 2, 4, 3}, 1), random_tensor({2, 2 / o.groups, 3, 2}, 2),
         random_tensor({2}, 3)});
  }
  const ConvTransposeOptions<3> odd3{{2, 1, 2}, {0, 1, 1}, {1, 0, 0}, {1, 1, 2}, 1};
  expect_gradients([&](const V& v) { return conv_transpose3d(v[0], v[1], v[2], odd3); },
                   {random_tensor({1, 2, 2, 3, 2}, 1), random_tensor({2, 3, 2, 2, 2}, 2),
                    random_tensor({3}, 3)});
}

TEST(PoolNdGradient, AgreesWithCentralDifferencesAlsoWhereUsedTwice) {
  const PoolOptions<1> line{{3}, {2}, {1}, true};
  const PoolOptions<2> image{{3, 2}, {2, 3}, {1, 0}, true};
  const PoolOptions<3> volume{{2, 3, 2}, {1, 2, 2}, {0, 1, 1}};
  const Tensor x1 = random_tensor({2, 3, 8}, 1), x2 = random_tensor({2, 2, 6, 7}, 2),
               x3 = random_tensor({1, 2, 4, 5, 3}, 3);
  expect_gradients([&](const V& v) { return max_pool(v[0], line) + avg_pool(v[0], line, false); },
                   {x1});
  expect_gradients([&](const V& v) { return max_pool(v[0], image) + avg_pool(v[0], image); }, {x2});
  expect_gradients(
      [&](const V& v) { return avg_pool(v[0], image, true, 5) + max_pool(v[0], image); }, {x2});
  expect_gradients(
      [&](const V& v) { return max_pool(v[0], volume) + avg_pool(v[0], volume, false); }, {x3});
  expect_gradients(
      [&](const V& v) { return adaptive_max_pool<1>(v[0], {3}) + adaptive_avg_pool<1>(v[0], {3}); },
      {x1});
  expect_gradients(
      [&](const V& v) {
        return adaptive_max_pool<2>(v[0], {4, 9}) + adaptive_avg_pool<2>(v[0], {4, 9});
      },
      {x2});
  expect_gradients(
      [&](const V& v) {
        return adaptive_max_pool<3>(v[0], {2, 3, 1}) + adaptive_avg_pool<3>(v[0], {2, 3, 1});
      },
      {x3});
}

TEST(ChannelNormGradient, AgreesWithCentralDifferencesAlsoWhereUsedTwice) {
  // Not of two values a group: there the norm is a step, and bends too sharply.
  for (const auto& [shape, groups] : std::vector<std::pair<Shape, std::int64_t>>{
           {{3, 4, 5}, 1}, {{3, 4, 5}, 2}, {{3, 4, 5}, 4}, {{2, 4, 3, 2}, 2}, {{3, 4}, 1}}) {
    SCOPED_TRACE(to_string(shape));
    expect_gradients(
        [groups = groups](const V& v) {
          return group_norm(v[0], groups, v[1], v[2]) + group_norm(v[0], groups, v[1], {});
        },
        {random_tensor(shape, 1), random_tensor({4}, 2), random_tensor({4}, 3)});
  }
  expect_gradients([](const V& v) { return group_norm(v[0], 2); }, {random_tensor({2, 4, 3}, 1)});
  expect_gradients([](const V& v) { return instance_norm(v[0], v[1], v[2]); },
                   {random_tensor({2, 3, 4, 3}, 1), random_tensor({3}, 2), random_tensor({3}, 3)});
  for (const std::int64_t size : {1, 2, 3, 4, 9}) {
    expect_gradients(
        [&](const V& v) {
          return local_response_norm(v[0], size, 0.5) + local_response_norm(v[0] * 2.0, size, 0.5);
        },
        {random_tensor({2, 6, 3, 2}, 4)});
  }
}

TEST(ResampleGradient, AgreesWithCentralDifferencesAlsoWhereUsedTwice) {
  const Tensor image = random_tensor({2, 2, 4, 5}, 1);
  for (const PadMode mode :
       {PadMode::constant, PadMode::reflect, PadMode::replicate, PadMode::circular}) {
    expect_gradients(
        [&](const V& v) {
          return pad(v[0], {1, 2, 3, 0}, mode) + pad(v[0], {1, 2, 3, 0}, mode);
        },
        {image});
    expect_gradients(
        [&](const V& v) {
          return pad(v[0], {2, 2}, mode);
        },
        {random_tensor({1, 2, 4}, 2)});
    expect_gradients(
        [&](const V& v) {
          return pad(v[0], {1, 1, 0, 1, 1, 0}, mode);
        },
        {random_tensor({1, 2, 3, 2, 3}, 2)});
  }
  expect_gradients(
      [](const V& v) {
        return pad(v[0], {-1, 2, 0, -2}, PadMode::constant, 3.0);
      },
      {image});
  for (const auto& size : {std::vector<std::int64_t>{7, 9}, {2, 3}, {4, 5}, {1, 1}}) {
    expect_gradients(
        [&](const V& v) { return interpolate(v[0], size) + interpolate(v[0] * 2.0, size); },
        {image});
    for (const bool corners : {false, true}) {
      expect_gradients(
          [&](const V& v) {
            return interpolate(v[0], size, Interpolation::bilinear, corners) +
                   interpolate(v[0], size, Interpolation::bilinear, corners);
          },
          {image});
    }
  }
  expect_gradients([](const V& v) { return interpolate(v[0], {7}, Interpolation::linear); },
                   {random_tensor({1, 2, 4}, 2)});
  expect_gradients(
      [](const V& v) {
        return interpolate_by(v[0], {2.0, 1.5, 3.0});
      },
      {random_tensor({1, 2, 2, 3, 2}, 3)});
  const Tensor volume = random_tensor({1, 2, 2, 3, 2}, 3);
  for (const bool corners : {false, true}) {
    for (const auto& size : {std::vector<std::int64_t>{7, 9}, {2, 3}, {4, 5}, {1, 1}}) {
      expect_gradients(
          [&](const V& v) {
            return interpolate(v[0], size, Interpolation::bicubic, corners) +
                   interpolate(v[0], size, Interpolation::bicubic, corners);
          },
          {image});
    }
    expect_gradients(
        [&](const V& v) {
          return interpolate(v[0], {3, 4, 1}, Interpolation::trilinear, corners);
        },
        {volume});
  }
  expect_gradients(
      [](const V& v) {
        return interpolate(v[0], {1, 2, 3}, Interpolation::area);
      },
      {volume});
  expect_gradients([](const V& v) { return pixel_shuffle(v[0], 2) + pixel_shuffle(v[0], 2); },
                   {random_tensor({2, 8, 3, 2}, 4)});
  expect_gradients([](const V& v) { return pixel_unshuffle(v[0], 3); },
                   {random_tensor({2, 2, 3, 6}, 5)});
}

}  // namespace
}  // namespace lockstep::test
