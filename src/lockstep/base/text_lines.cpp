#include <lockstep/base/text_lines.hpp>

#include <sstream>

namespace lockstep {

std::pair<std::string, std::string> first_differing_lines(const std::string& a,
                                                          const std::string& b) {
  std::istringstream lines_a(a), lines_b(b);
  for (;;) {
    std::string line_a, line_b;
    const bool more_a = static_cast<bool>(std::getline(lines_a, line_a));
    const bool more_b = static_cast<bool>(std::getline(lines_b, line_b));
    if (line_a != line_b || !more_a || !more_b)
      return {more_a ? line_a : "nothing more", more_b ? line_b : "nothing more"};
  }
}

}  // namespace lockstep
