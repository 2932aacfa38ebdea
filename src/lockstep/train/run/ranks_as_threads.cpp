#include <fmt/format.h>
#include <unistd.h>

#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include <lockstep/comm/threads_group.hpp>
#include <lockstep/train/report/console.hpp>
#include <lockstep/train/run/failures.hpp>
#include <lockstep/train/run/ranks.hpp>

namespace lockstep::train {
namespace {

constexpr auto time_to_end = std::chrono::seconds(5);

/// Ends the process if ranks are still running so long after the first failure: a thread cannot be
/// ended from outside.
class ExitWatchdog {
 public:
  explicit ExitWatchdog(Console& console) : console_(console) {}
  ExitWatchdog(const ExitWatchdog&) = delete;
  ExitWatchdog& operator=(const ExitWatchdog&) = delete;

  /// Called after a rank's failure, which is then reported; later failures are its consequences.
  void prepare(const std::string& message, ExitCode code) {
    std::call_once(once_, [&] {
      thread_ = std::jthread([this, message, code](const std::stop_token& all_have_ended) {
        std::mutex mutex;
        std::unique_lock lock(mutex);
        std::condition_variable_any changed;
        changed.wait_for(lock, all_have_ended, time_to_end, [] { return false; });
        if (all_have_ended.stop_requested()) return;
        console_.complain(message);
        _exit(static_cast<int>(code));
      });
    });
  }

 private:
  Console& console_;
  std::once_flag once_;
  std::jthread thread_;
};

}  // namespace

ExitCode run_ranks_as_threads(const std::string& name, int ranks, const GroupOptions& options,
                              const RankBody& body) {
  Console console(0);
  std::vector<ExitCode> codes(static_cast<std::size_t>(ranks), ExitCode::done);
  const auto complain = [&](const std::string& message) {
    console.complain(fmt::format("{}: {}", name, message));
  };
  std::optional<Failure> failure;
  {
    ExitWatchdog watchdog(console);
    const auto run = [&](ProcessGroup& group) {
      ExitCode& code = codes[static_cast<std::size_t>(group.rank())];
      std::filesystem::path run_dir;
      try {
        // Not an owner: the group belongs to lockstep::run_ranks_as_threads.
        code = body(std::shared_ptr<ProcessGroup>(&group, [](ProcessGroup*) {}), console, run_dir);
      } catch (...) {
        Failure mine = current_failure();
        console.note_failure(mine.message);
        if (is_agreed_by_all(ranks)) {
          code = mine.code;
          if (group.rank() == 0) complain(mine.message);
          return;
        }
        if (mine.rank < 0)
          mine.message = fmt::format("rank {} of {}: {}", group.rank(), ranks, mine.message);
        watchdog.prepare(fmt::format("{}: {}", name, mine.message), mine.code);
        throw ErrorOnRank<Error>({group.rank(), ""}, mine.message, mine.code);
      }
    };
    try {
      lockstep::run_ranks_as_threads(ranks, run, options);
    } catch (...) {
      failure = current_failure();
    }
  }
  if (!failure) return codes.front();
  complain(failure->message);
  return failure->code;
}

}  // namespace lockstep::train
