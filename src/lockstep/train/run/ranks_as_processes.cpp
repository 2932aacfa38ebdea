#include <fmt/format.h>
#include <mpi.h>

#include <chrono>
#include <optional>
#include <thread>

#include <lockstep/base/host.hpp>
#include <lockstep/comm/mpi/launcher.hpp>
#include <lockstep/comm/mpi_group.hpp>
#include <lockstep/train/report/console.hpp>
#include <lockstep/train/report/flight_report.hpp>
#include <lockstep/train/run/failures.hpp>
#include <lockstep/train/run/ranks.hpp>
#include <lockstep/train/run/stop_request.hpp>

namespace lockstep::train {

ExitCode run_ranks_as_processes(const std::string& name, const GroupOptions& options, int& argc,
                                char**& argv, const RankBody& body) {
  int rank = 0, ranks = 1;
  Failure failure;
  bool foreseen = false, loss_is_not_finite = false;
  {
    std::optional<MpiSession> mpi;
    {
      const StopRequestsHeld held;
      mpi.emplace(argc, argv, options.timeout);
    }
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    Console console(rank);
    const auto complain = [&](const std::string& message) {
      console.complain(fmt::format("{}: {}", name, message));
    };
    std::filesystem::path run_dir;
    try {
      return body(make_mpi_group(MPI_COMM_WORLD, options), console, run_dir);
    } catch (...) {
      failure = current_failure();
      foreseen = is_foreseen();
      loss_is_not_finite = is_non_finite_loss();
      console.note_failure(failure.message);
      if (is_agreed_by_all(ranks)) {
        if (rank == 0) complain(failure.message);
        return failure.code;
      }
    }
    // Mostly all ranks see it in the same step: rank 0 tells it and ends the job meanwhile.
    if (rank > 0 && loss_is_not_finite) std::this_thread::sleep_for(std::chrono::seconds(2));
    if (failure.rank < 0) failure.message = rank_prefix(rank, ranks, host_name()) + failure.message;
    give_up(run_dir, failure, complain);
    if (ranks > 1) {
      wait_until_stderr_is_read();  // mpiexec drops the rest when it learns of the end
      // To the waiting ranks an unforeseen error is a failed peer.
      const ExitCode code = foreseen ? failure.code : ExitCode::communication;
      MPI_Abort(MPI_COMM_WORLD, static_cast<int>(code));
    }
  }
  return failure.code;
}

}  // namespace lockstep::train
