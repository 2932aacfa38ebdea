#pragma once
#include <lockstep/base/error.hpp>
#include <lockstep/comm/agreement.hpp>

namespace lockstep::train {

/// A loss that is not finite, with train.on_nan = "stop".
class NonFiniteLoss : public Error {
 public:
  using Error::Error;
};

/// The remedy in every message about something that is not finite.
inline constexpr const char* remedy_for_not_finite =
    "Lower optimizer.lr, check the data, or continue regardless with --set "
    "'train.on_nan=\"ignore\"'.";

/// Whether the error being handled in a catch block may happen to any run, as a full disk may. Its
/// exit code then stays even if only one of several ranks fails with it.
[[nodiscard]] bool is_foreseen();

/// Whether the error being handled in a catch block is a NonFiniteLoss.
[[nodiscard]] bool is_non_finite_loss();

}  // namespace lockstep::train
