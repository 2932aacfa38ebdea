// Every case of ops.h5, forward and backward, in f32 and f64. Shapes, attributes and inputs come
// from the file.
#include <gtest/gtest.h>

#include <support/golden_cases.hpp>
#include <support/test_devices.hpp>

#include "golden_ops/case.hpp"

namespace lockstep::test {
namespace {

Checks all_checks() {
  Checks all;
  for (const auto& checks :
       {activation_checks(), arithmetic_checks(), attention_checks(), batch_norm_checks(),
        conv_checks(), embedding_checks(), linear_checks(), loss_checks(), matmul_checks(),
        norm_checks(), reduction_checks(), regression_loss_checks(), shape_checks()}) {
    all.insert(checks.begin(), checks.end());
  }
  return all;
}

TEST(GoldenOps, EveryCaseAgreesAndNothingOfTheFileIsLeftUnread) {
  check_golden_cases<Case>(GoldenFile("ops.h5"), all_checks());
}

class GoldenOpsOnDevice : public testing::TestWithParam<Device> {};

TEST_P(GoldenOpsOnDevice, EveryCaseAgrees) {
  expect_cases_on(GetParam(), GoldenFile("ops.h5"), all_checks());
}

INSTANTIATE_TEST_SUITE_P(Devices, GoldenOpsOnDevice, testing::ValuesIn(devices_to_test()),
                         name_of_device_case);

}  // namespace
}  // namespace lockstep::test
