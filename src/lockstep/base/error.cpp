#include <lockstep/base/error.hpp>

#include <cstddef>

#include <lockstep/base/printable.hpp>

namespace lockstep {

std::string shortened(const std::string& message) {
  constexpr std::size_t longest = 2000;
  return without_middle(printable(message), longest);
}

}  // namespace lockstep

namespace lockstep::detail {

void assertion_failed(const char* condition, const char* file, int line) {
  throw Error(std::string("internal error: ") + condition + " does not hold at " + file + ":" +
              std::to_string(line) + ". Please report this with the run's log.");
}

}  // namespace lockstep::detail
