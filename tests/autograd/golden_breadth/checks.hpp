#pragma once
#include "../golden_ops/case.hpp"

namespace lockstep::test {

/// How to check a case of each operation of breadth.h5, by subject.
[[nodiscard]] Checks breadth_element_checks();
[[nodiscard]] Checks breadth_image_checks();
[[nodiscard]] Checks breadth_loss_checks();

}  // namespace lockstep::test
