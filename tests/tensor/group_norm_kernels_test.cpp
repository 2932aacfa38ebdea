// group_norm by the kernels of a GPU, against the host's: rows in packs whose channels end within
// one, rows too short for packs, and memory that is not aligned.
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include <lockstep/tensor/kernels/norm/group_norm.hpp>

#include "like_host.hpp"

namespace lockstep {
namespace {

using test::KernelTensors;

class GroupNormKernels : public test::LikeHost {};
INSTANTIATE_TEST_SUITE_P(Devices, GroupNormKernels, test::devices_and_dtypes(), test::name_of_case);

struct GroupsCase {
  Shape x;
  std::int64_t groups;
};

const std::vector<GroupsCase>& group_cases() {
  static const std::vector<GroupsCase> all{
      {{2, 6, 5}, 3},      {{3, 12, 7, 9}, 4}, {{2, 4, 16, 16}, 4}, {{1, 3, 13, 11}, 1},
      {{2, 8, 12, 12}, 2}, {{1, 130}, 1},      {{0, 4, 3}, 2},      {{2, 5, 1, 301}, 5}};
  return all;
}

/// Of sums over hundreds of gradients of both signs.
constexpr double roundings = 4;

/// y, the sums and the gradient of x.
void run_group_norm(KernelTensors& t, const Tensor& x, std::int64_t groups, bool affine,
                    bool accumulate) {
  const Shape rows{x.size(0), groups}, channels{x.size(0), x.size(1)};
  const Tensor weight = affine ? t.parameter({x.size(1)}) : Tensor();
  const Tensor bias = affine ? t.parameter({x.size(1)}) : Tensor();
  const Tensor mean = t.parameter_output(rows), rstd = t.parameter_output(rows);
  const Tensor sums = t.parameter_output(channels), products = t.parameter_output(channels);
  group_norm_forward(x, groups, weight, bias, 1e-5, t.output(x.shape()), mean, rstd);
  const Tensor grad_y = t.input(x.shape());
  group_norm_sums(grad_y, x, groups, mean, rstd, sums, products);
  group_norm_backward(grad_y, x, groups, weight, mean, rstd, sums, products, accumulate,
                      t.output(x.shape()));
}

TEST_P(GroupNormKernels, OfGroupsAndOfChannelsAreTheHosts) {
  for (const GroupsCase& c : group_cases()) {
    for (const bool affine : {true, false}) {
      for (const bool accumulate : {true, false}) {
        SCOPED_TRACE(testing::Message()
                     << to_string(c.x) << " in " << c.groups << affine << accumulate);
        expect_like_host(
            [&](KernelTensors& t) {
              run_group_norm(t, t.input(c.x), c.groups, affine, accumulate);
            },
            roundings);
      }
    }
  }
}

TEST_P(GroupNormKernels, OfMemoryThatIsNotAlignedAreTheHosts) {
  expect_like_host(
      [](KernelTensors& t) {
        run_group_norm(t, t.unaligned({2, 4, 16, 17}), 2, true, true);
      },
      roundings);
}

}  // namespace
}  // namespace lockstep
