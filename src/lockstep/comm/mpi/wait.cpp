#include <lockstep/comm/mpi/wait.hpp>

#include <fmt/format.h>

#include <lockstep/base/clock.hpp>
#include <lockstep/base/failure.hpp>
#include <lockstep/comm/engine/progress_engine.hpp>
#include <lockstep/comm/mpi/status.hpp>

namespace lockstep {

void MpiWait::operator()(MPI_Request request) const {
  until([&] {
    int over = 0;
    check_mpi(MPI_Test(&request, &over, MPI_STATUS_IGNORE), "MPI_Test");
    return over != 0;
  });
}

void MpiWait::until(const std::function<bool()>& over) const {
  const auto start = Clock::now();
  if (ProgressEngine::instance().progress_until(over, timeout_)) return;
  throw ErrorOnRank<TimeoutError>(
      {rank_, ""},
      fmt::format(
          "{}: {} has waited {:.1f} s for the other ranks of its communicator: at least one has "
          "not called it. The call is collective: every rank of the communicator must make it.",
          rank_name_, doing_, seconds_since(start)));
}

}  // namespace lockstep
