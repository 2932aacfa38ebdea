// Every case of breadth.h5, forward and backward, in f32 and f64. Shapes, attributes and inputs
// come from the file.
#include <gtest/gtest.h>

#include <support/golden_cases.hpp>

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

TEST(GoldenBreadth, EveryCaseHasTheBitsOfTheHostOnADevice) {
  expect_bits_of_host_on_a_device(GoldenFile("breadth.h5"), all_breadth_checks());
}

}  // namespace
}  // namespace lockstep::test
