#include "tool.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <lockstep/base/error.hpp>
#include <lockstep/base/failure.hpp>
#include <lockstep/deck/did_you_mean.hpp>
#include <lockstep/io/atomic_file.hpp>
#include <lockstep/io/folder.hpp>
#include <lockstep/train/report/standard_output.hpp>
#include <lockstep/train/run/memory_limit.hpp>

namespace lockstep {
namespace {

/// Prints CLI11's message: --help, --version, or the error.
ExitCode answer(const CLI::App& cli, const CLI::ParseError& error) {
  std::ostringstream out, err;
  if (cli.exit(error, out, err) == 0) {
    train::write_stdout(out.str());
    return ExitCode::done;
  }
  const std::string program = cli.get_name();
  const std::string message = fmt::format("{}: {}. Try {} --help.", program, error.what(), program);
  std::fputs((shortened(message) + "\n").c_str(), stderr);
  return ExitCode::bad_input;
}

/// Throws InputError for a word in the place of a command that names none. CLI11 would answer a
/// --help behind it with the help of the command before it, and otherwise only say that a
/// subcommand is required.
void expect_known_commands(const CLI::App& cli, int argc, char** argv) {
  const CLI::App* program = &cli;
  std::string before = cli.get_name();
  for (int i = 1; i < argc && argv[i][0] != '-'; ++i) {
    const auto commands = program->get_subcommands([](const CLI::App*) { return true; });
    if (commands.empty()) return;
    const auto found = std::ranges::find(commands, argv[i], &CLI::App::get_name);
    if (found == commands.end()) {
      std::vector<std::string_view> names;
      for (const CLI::App* command : commands) names.push_back(command->get_name());
      throw InputError(fmt::format("\"{}\" is not a command of {}. {}", argv[i], before,
                                   did_you_mean(argv[i], names)));
    }
    program = *found;
    before += " " + program->get_name();
  }
}

}  // namespace

CLI::Validator number_within(double least, double most) {
  const auto fault = [least, most](const std::string& text) {
    double number = 0;
    const bool is_number = CLI::detail::lexical_cast(text, number);
    return is_number && number >= least && number <= most
               ? std::string()
               : fmt::format("{} is not a number from {:g} to {:g}", text, least, most);
  };
  return {fault, fmt::format("[{:g} - {:g}]", least, most)};
}

CLI::Validator seed_of_64_bits() {
  const auto fault = [](const std::string& text) {
    std::uint64_t seed = 0;
    const char* const end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(text.data(), end, seed);
    return error == std::errc() && rest == end
               ? std::string()
               : fmt::format("{} is not a whole number from 0 to 2^64 - 1", text);
  };
  return {fault, "[0 - 2^64 - 1]"};
}

int run_tool(CLI::App& cli, int argc, char** argv, const std::function<ExitCode()>& action) {
  train::keep_closed_streams_closed();
  std::signal(SIGXFSZ, SIG_IGN);  // a file that grows too large is then an error like a full disk
  remove_unfinished_files_on_signals();
  ExitCode code = ExitCode::done;
  bool has_room = false;
  try {
    train::expect_address_space(1);
    has_room = true;
    try {
      expect_known_commands(cli, argc, argv);
      cli.parse(argc, argv);
      expect_working_directory();
      code = action();
    } catch (const CLI::ParseError& error) {
      code = answer(cli, error);
    }
  } catch (...) {
    const Failure failure = current_failure();
    // Not fmt::print: if stderr cannot be written either, the exit code must tell.
    std::fputs((cli.get_name() + ": " + shortened(failure.message) + "\n").c_str(), stderr);
    code = failure.code;
    if (!has_room) _exit(static_cast<int>(code));  // libraries without their threads hang at exit
  }
  return static_cast<int>(code);
}

}  // namespace lockstep
