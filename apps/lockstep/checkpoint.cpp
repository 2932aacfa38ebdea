#include <lockstep/checkpoint/inspect.hpp>
#include <lockstep/train/standard_output.hpp>

#include "commands.hpp"

namespace lockstep::utility {
namespace {

ExitCode print_reports(const std::vector<std::string>& files,
                       CheckpointReport (*report_on)(const std::filesystem::path&)) {
  ExitCode code = ExitCode::done;
  for (const auto& file : files) {
    const auto report = report_on(file);
    train::write_stdout(report.text);
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
