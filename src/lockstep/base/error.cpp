#include <lockstep/base/error.hpp>

namespace lockstep::detail {

void assertion_failed(const char* condition, const char* file, int line) {
  throw Error(std::string("internal error: ") + condition + " does not hold at " + file + ":" +
              std::to_string(line) + ". Please report this with the run's log.");
}

}  // namespace lockstep::detail
