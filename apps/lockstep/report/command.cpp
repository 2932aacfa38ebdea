#include <fmt/format.h>

#include <lockstep/train/report/standard_output.hpp>

#include "commands.hpp"
#include "report/report.hpp"

namespace lockstep::utility {

ExitCode report(const report::Options& options) {
  const std::int64_t bytes =
      report::write_report({options.paths.begin(), options.paths.end()}, options.output);
  train::write_stdout(fmt::format("{}: {:.0f} kB, opens in a browser without a network\n",
                                  options.output, static_cast<double>(bytes) / 1e3));
  return ExitCode::done;
}

}  // namespace lockstep::utility
