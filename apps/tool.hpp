#pragma once
// What the utilities have in common: a command line and an action, errors as one sentence.
#include <functional>
#include <lockstep/base/error.hpp>

namespace CLI {
class App;
class Validator;
}  // namespace CLI

namespace lockstep {

/// A check that an option is a number from `least` to `most`: nan, which CLI::Range takes, is none.
[[nodiscard]] CLI::Validator number_within(double least, double most);

/// A check that an option is a seed, a whole number from 0 to 2^64 - 1: CLI11 takes larger ones for
/// the largest.
[[nodiscard]] CLI::Validator seed_of_64_bits();

/// Parses the command line, runs `action` and returns what main() returns. What --help says goes
/// the way of all output; a bad command line is ExitCode::bad_input; what `action` throws is told
/// on stderr and has its exit code.
int run_tool(CLI::App& cli, int argc, char** argv, const std::function<ExitCode()>& action);

}  // namespace lockstep
