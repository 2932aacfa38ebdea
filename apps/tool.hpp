#pragma once
// What the utilities have in common: a command line and an action, errors as one sentence.
#include <functional>
#include <lockstep/base/error.hpp>

namespace CLI {
class App;
}

namespace lockstep {

/// Parses the command line, runs `action` and returns what main() returns. What --help says goes
/// the way of all output; a bad command line is ExitCode::bad_input; what `action` throws is told
/// on stderr and has its exit code.
int run_tool(CLI::App& cli, int argc, char** argv, const std::function<ExitCode()>& action);

}  // namespace lockstep
