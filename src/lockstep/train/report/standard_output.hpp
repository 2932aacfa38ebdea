#pragma once
#include <chrono>
#include <string_view>

namespace lockstep::train {

/// Writes all of `text` to standard output, now: the only way in which Lockstep's programs print.
/// Throws Error if that fails (a full disk, a reader that has gone), so that no program reports
/// success after losing output.
void write_stdout(std::string_view text);

/// The same for output that must not wait for its reader. Also throws Error if standard output (a
/// full pipe, a stopped terminal) accepts nothing for `patience`. A part of `text` may have been
/// written.
void write_stdout(std::string_view text, std::chrono::milliseconds patience);

/// For the beginning of main(): keeps a standard stream that the shell has closed (`>&-`) closed.
/// Otherwise a file opened later, for example a checkpoint, would take its number and be printed
/// into.
void keep_closed_streams_closed();

}  // namespace lockstep::train
