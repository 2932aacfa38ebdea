// Every case of breadth.h5, forward and backward, in f32 and f64. Shapes, attributes and inputs
// come from the file.
#include <gtest/gtest.h>

#include <support/golden_cases.hpp>
#include <support/gpu_stand_in.hpp>
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

TEST(GoldenBreadth, CtcLossAgreesByTheKernelsOfAGpu) {
  const GpuStandIn gpu;
  const GoldenFile file("breadth.h5");
  int cases = 0;
  for (const auto& group : file.groups("")) {
    if (!file.has_attribute(group, "op") || file.text(group, "op") != "ctc_loss") continue;
    for (const DType dtype : {DType::f32, DType::f64}) {
      SCOPED_TRACE(group + " in " + std::string(name_of(dtype)));
      Case c(file, group, dtype, {DeviceType::sim, 0});
      ASSERT_NO_THROW(breadth_loss_checks().at("ctc_loss")(c));
      ++cases;
    }
  }
  EXPECT_GT(cases, 0);
}

INSTANTIATE_TEST_SUITE_P(Devices, GoldenBreadthOnDevice, testing::ValuesIn(devices_to_test()),
                         name_of_device_case);

}  // namespace
}  // namespace lockstep::test
