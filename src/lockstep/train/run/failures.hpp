#pragma once
#include <lockstep/base/error.hpp>
#include <lockstep/comm/agreement.hpp>

namespace lockstep::train {

/// A loss that is not a finite number, with train.on_nan = "stop".
class NonFiniteLoss : public Error {
 public:
  using Error::Error;
};

/// What to do about it, for every message that says something is not finite.
inline constexpr const char* remedy_for_not_finite =
    "Lower optimizer.lr, look at the data, or go on regardless with --set "
    "'train.on_nan=\"ignore\"'.";

/// Whether what is being handled in a catch block may happen to any run, as a full disk may: its
/// exit code stays where one rank alone of several fails so.
[[nodiscard]] bool is_foreseen();

}  // namespace lockstep::train
