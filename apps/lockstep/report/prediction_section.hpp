#pragma once
// Results of `lockstep scaling --predict` as a section of a page.
#include <vector>

#include "study_sections.hpp"

namespace lockstep::report {

/// Predicted beside measured steps, and changes that would help; nothing for studies without a
/// prediction.
void add_predictions(Page& page, const std::vector<ScalingStudy>& studies);

}  // namespace lockstep::report
