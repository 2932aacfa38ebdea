#pragma once
#include <lockstep/base/error.hpp>
#include <lockstep/comm/agreement.hpp>

namespace lockstep {

/// For agree(): a failure is an InputError of all ranks.
[[nodiscard]] inline AgreeOptions as_input_error() {
  AgreeOptions options;
  options.refuse = [](const AgreedFailure& failure) {
    throw Agreed<InputError>(failure, failure.prefix() + failure.message);
  };
  return options;
}

}  // namespace lockstep
