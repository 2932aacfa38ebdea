#include <lockstep/train/run/elastic_report.hpp>

#include <fmt/format.h>

#include <condition_variable>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <utility>

#include <lockstep/base/log.hpp>
#include <lockstep/data/files/json_file.hpp>
#include <lockstep/io/atomic_file.hpp>
#include <lockstep/train/report/flight_report.hpp>

namespace lockstep::train {
namespace fs = std::filesystem;
namespace {

constexpr auto between_writes = std::chrono::milliseconds(250);

}  // namespace

std::unique_ptr<ElasticReport> ElasticReport::open(const fs::path& checkpoints) {
  const char* folder = std::getenv(folder_variable);
  if (!folder || *folder == '\0') return nullptr;
  return std::make_unique<ElasticReport>(folder, checkpoints);
}

ElasticReport::ElasticReport(fs::path folder, const fs::path& checkpoints)
    : folder_(std::move(folder)),
      checkpoints_(checkpoints.empty() ? "" : fs::absolute(checkpoints).string()) {
  note_flight(folder_);  // before the file, which says that all is there
  write();
  thread_ = std::jthread([this](const std::stop_token& over) { watch(over); });
}

ElasticReport::~ElasticReport() {
  thread_.request_stop();
  thread_.join();
}

void ElasticReport::made_step(std::int64_t step) noexcept {
  step_.store(step, std::memory_order_relaxed);
  steps_made_.fetch_add(1, std::memory_order_release);
}

void ElasticReport::end(bool is_complete, StopReason stopped_by) {
  const std::lock_guard lock(writing_);
  has_ended_ = true;
  is_complete_ = is_complete;
  stopped_by_ = stopped_by;
  try {
    write();
  } catch (const std::exception& error) {
    log(LogLevel::warning,
        fmt::format("lockstep elastic will not know how this program ended: {}", error.what()));
  }
}

void ElasticReport::write() {
  told_ = steps_made_.load(std::memory_order_acquire);
  const nlohmann::json facts{{"steps_made", told_},
                             {"step", step_.load(std::memory_order_relaxed)},
                             {"checkpoints", checkpoints_},
                             {"completed", is_complete_},
                             {"stopped_early", has_ended_ && !is_complete_},
                             {"stopped_by", words(stopped_by_)}};
  write_atomically(folder_ / file_name, detail::json_text(facts) + "\n");
}

/// Looks once more when it is over: a program that ends by an exception tells its last step.
void ElasticReport::watch(const std::stop_token& over) {
  std::mutex mutex;
  std::condition_variable_any changed;
  bool has_warned = false;
  for (bool is_over = false; !is_over;) {
    {
      std::unique_lock lock(mutex);
      changed.wait_for(lock, over, between_writes, [] { return false; });
    }
    is_over = over.stop_requested();
    const std::lock_guard lock(writing_);
    if (has_ended_ || steps_made_ == told_) continue;
    try {
      write();
    } catch (const std::exception& error) {
      if (std::exchange(has_warned, true)) continue;
      log(LogLevel::warning,
          fmt::format("lockstep elastic does not hear of this program: {}", error.what()));
    }
  }
}

}  // namespace lockstep::train
