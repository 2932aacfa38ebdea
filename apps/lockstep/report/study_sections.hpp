#pragma once
// Scaling studies (lockstep scaling) as sections of a page: several are overlaid.
#include <filesystem>
#include <string>
#include <vector>

#include "page.hpp"
#include "scaling/compare.hpp"

namespace lockstep::report {

struct ScalingStudy {
  std::string name;
  scaling::Study study;
  scaling::Json benchmarks;
  scaling::Json prediction;  ///< null unless one was wanted
};

/// Whether it is the folder of a study, or its scaling.json.
[[nodiscard]] bool is_study(const std::filesystem::path& path);
/// Throws InputError: it is unfinished or damaged.
[[nodiscard]] ScalingStudy read_scaling_study(const std::filesystem::path& path);

void add_studies(Page& page, const std::vector<ScalingStudy>& studies);

}  // namespace lockstep::report
