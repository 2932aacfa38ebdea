#pragma once
#include <string_view>

namespace lockstep::train {

/// Writes all of `text` to standard output, now: the one way in which Lockstep's programs print.
/// Throws Error if that fails (a full disk, a reader that has gone), so that no program says
/// success after printing into nothing.
void write_stdout(std::string_view text);

}  // namespace lockstep::train
