#pragma once
#include <chrono>
#include <string_view>

namespace lockstep::train {

/// Writes all of `text` to standard output, now: the one way in which Lockstep's programs print.
/// Throws Error if that fails (a full disk, a reader that has gone), so that no program says
/// success after printing into nothing.
void write_stdout(std::string_view text);

/// The same for what must not be held up by its reader: throws Error also if standard output, a
/// full pipe or a terminal that was stopped, takes nothing for as long as `patience`. A part of
/// `text` may have been written.
void write_stdout(std::string_view text, std::chrono::milliseconds patience);

/// For the beginning of main(): a standard stream that the shell has closed (`>&-`) stays closed,
/// so that no file which is opened later, a checkpoint, takes its place and is printed into.
void keep_closed_streams_closed();

}  // namespace lockstep::train
