#pragma once
#include <filesystem>
#include <string>

#include "analysis.hpp"
#include "identity.hpp"

namespace lockstep::scaling {

/// A study as its scaling.json tells of it.
struct Study {
  Identity identity;
  std::vector<Result> results;
};
/// Of scaling.json, or of the folder that holds it. Throws InputError.
[[nodiscard]] Study read_study(const std::string& file);
/// The same of what `file` holds.
[[nodiscard]] Study study_of(const Json& content, const std::filesystem::path& file);

/// What became of one size from one study to another.
struct Change {
  int ranks = 1, nodes = 1;
  Scatter before, now;  ///< ms a step
  double ratio = 1;     ///< of the medians, now / before
  /// The repeats of one are all above those of the other, at least two each.
  bool is_outside_scatter = false;
};
/// Of the sizes that both have measured, in the order of `before`. Throws InputError saying what
/// keeps them from being compared: difference(), no common size, more ranks than cores in one.
[[nodiscard]] std::vector<Change> compare(const Study& before, const Study& now,
                                          const std::string& across = "");
[[nodiscard]] std::string table(const std::vector<Change>& changes);

}  // namespace lockstep::scaling
