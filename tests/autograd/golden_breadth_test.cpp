// Every case of breadth.h5, forward and backward, in f32 and f64. Shapes, attributes and inputs
// come from the file.
#include <gtest/gtest.h>

#include <support/golden_cases.hpp>
#include <support/test_devices.hpp>

#include "golden_breadth/checks.hpp"

namespace lockstep::test {
namespace {

Checks all_breadth_checks() {
  Checks all;
  for (const auto& checks :
       {breadth_element_checks(), breadth_image_checks(), breadth_loss_checks()})
    all.insert(checks.begin(), checks.end());
  return all;
}

TEST(GoldenBreadth, EveryCaseAgreesAndNothingOfTheFileIsLeftUnread) {
  const GoldenFile file("breadth.h5");
  // optim: tests/optim/optimizer_golden_test.cpp.
  check_golden_cases<Case>(file, all_breadth_checks(), {"optim"});
}

class GoldenBreadthOnDevice : public testing::TestWithParam<Device> {};

TEST_P(GoldenBreadthOnDevice, EveryCaseAgrees) {
  expect_cases_on(GetParam(), GoldenFile("breadth.h5"), all_breadth_checks());
}

INSTANTIATE_TEST_SUITE_P(Devices, GoldenBreadthOnDevice, testing::ValuesIn(devices_to_test()),
                         name_of_device_case);

}  // namespace
}  // namespace lockstep::test
