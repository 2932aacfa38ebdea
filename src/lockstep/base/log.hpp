#pragma once
#include <functional>
#include <string_view>

namespace lockstep {

enum class LogLevel { debug, info, warning, error };

/// Receives every message of the library. May be called from any thread; must not throw.
using LogSink = std::function<void(LogLevel, std::string_view)>;

/// Installs the process's one sink and the least level that reaches it; an empty sink (the
/// default) silences the library. Set it before other threads log.
void set_log_sink(LogSink sink, LogLevel least = LogLevel::info);

/// True if a message of this level would reach the sink: ask before building a costly one.
[[nodiscard]] bool log_enabled(LogLevel level) noexcept;

void log(LogLevel level, std::string_view message);

}  // namespace lockstep
