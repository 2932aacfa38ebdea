#include <lockstep/base/log.hpp>

#include <atomic>
#include <memory>
#include <mutex>
#include <utility>

namespace lockstep {
namespace {

struct Sink {
  std::mutex mutex;
  LogSink write;
  std::atomic<int> least{static_cast<int>(LogLevel::error) + 1};
};

Sink& sink() {
  static Sink instance;
  return instance;
}

}  // namespace

void set_log_sink(LogSink write, LogLevel least) {
  const std::lock_guard lock(sink().mutex);
  const bool silent = !write;
  sink().write = std::move(write);
  sink().least = static_cast<int>(silent ? LogLevel::error : least) + (silent ? 1 : 0);
}

bool log_enabled(LogLevel level) noexcept { return static_cast<int>(level) >= sink().least; }

void log(LogLevel level, std::string_view message) {
  if (!log_enabled(level)) return;
  const std::lock_guard lock(sink().mutex);
  if (sink().write) sink().write(level, message);
}

}  // namespace lockstep
