#pragma once
// Common to the utilities: a command line and an action, errors as one sentence.
#include <functional>
#include <lockstep/base/error.hpp>

namespace CLI {
class App;
class Validator;
}  // namespace CLI

namespace lockstep {

/// A check that an option is a number from `least` to `most`. Unlike CLI::Range it refuses nan.
[[nodiscard]] CLI::Validator number_within(double least, double most);

/// A check that an option is a seed, a whole number from 0 to 2^64 - 1. CLI11 alone would clamp
/// larger ones.
[[nodiscard]] CLI::Validator seed_of_64_bits();

/// Parses the command line, runs `action` and returns the exit code for main(). --help goes to
/// stdout. A bad command line is ExitCode::bad_input. An error thrown by `action` is printed on
/// stderr and gives its exit code.
int run_tool(CLI::App& cli, int argc, char** argv, const std::function<ExitCode()>& action);

}  // namespace lockstep
