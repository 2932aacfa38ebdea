#pragma once
#include <functional>
#include <string>

#include <lockstep/base/error.hpp>
#include <lockstep/comm/process_group.hpp>

namespace lockstep::train {

/// A failure that every rank knows of and throws at the same place: nobody has to be told, so the
/// job can end without MPI_Abort.
class AgreedError : public Error {
 public:
  using Error::Error;
};

/// A loss that is not a finite number, with train.on_nan = "stop".
class NonFiniteLoss : public Error {
 public:
  using Error::Error;
};

/// What to do about it, for every message that says something is not finite.
inline constexpr const char* remedy_for_not_finite =
    "Lower optimizer.lr, look at the data, or go on regardless with --set "
    "'train.on_nan=\"ignore\"'.";

/// Runs `part` on every rank; if it threw on any, throws AgreedError on all of them with the
/// message and exit code of the lowest rank that failed, naming it unless all failed alike.
/// Collective: `part` itself must not communicate.
void agree(ProcessGroup& group, const std::function<void()>& part);

/// "rank 3 of 8 (node12): ", or nothing in a group of one.
[[nodiscard]] std::string rank_prefix(const ProcessGroup& group);
[[nodiscard]] std::string rank_prefix(int rank, int size, const std::string& host);

/// Message and exit code of whatever is being handled in a catch block.
struct Failure {
  std::string message;
  ExitCode code = ExitCode::failure;
  bool foreseen = false;  ///< the exit code stays where one rank alone of several fails so
};
[[nodiscard]] Failure current_failure();

}  // namespace lockstep::train
