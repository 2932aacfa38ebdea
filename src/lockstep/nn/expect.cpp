#include <lockstep/nn/expect.hpp>

#include <string>

#include <lockstep/base/error.hpp>

namespace lockstep::nn {

void expect_positive(const char* layer, const char* argument, std::int64_t value) {
  if (value < 1) {
    throw InputError(std::string(layer) + ": " + argument + " must be at least 1, not " +
                     std::to_string(value));
  }
}

}  // namespace lockstep::nn
