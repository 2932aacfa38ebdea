#pragma once
#include <string>
#include <utility>

namespace lockstep {

/// The first line in which two different texts differ, from each; "nothing more" for a text that
/// has ended.
[[nodiscard]] std::pair<std::string, std::string> first_differing_lines(const std::string& a,
                                                                        const std::string& b);

}  // namespace lockstep
