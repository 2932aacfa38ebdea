#include <fmt/format.h>

#include <lockstep/checkpoint/inspect.hpp>

#include "commands.hpp"

namespace lockstep::utility {
namespace {

ExitCode print_reports(const std::vector<std::string>& files,
                       CheckpointReport (*report_on)(const std::filesystem::path&)) {
  ExitCode code = ExitCode::done;
  for (const auto& file : files) {
    const auto report = report_on(file);
    fmt::print("{}", report.text);
    if (report.code != ExitCode::done) code = report.code;
  }
  return code;
}

}  // namespace

ExitCode inspect_checkpoints(const std::vector<std::string>& files) {
  return print_reports(files, inspect_checkpoint);
}

ExitCode verify_checkpoints(const std::vector<std::string>& files) {
  return print_reports(files, check_checkpoint);
}

}  // namespace lockstep::utility
