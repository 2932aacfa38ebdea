#include <fmt/format.h>

#include <lockstep/base/version.hpp>
#include <lockstep/comm/mpi_group.hpp>
#include <lockstep/comm/objects.hpp>
#include <lockstep/train/launch.hpp>
#include <lockstep/train/library_versions.hpp>

#include "commands.hpp"

namespace lockstep::utility {

ExitCode doctor(int argc, char** argv) {
  const MpiSession mpi(argc, argv);
  const auto group = make_mpi_group(MPI_COMM_WORLD);
  const auto launch = train::inspect_launch(*group);
  const auto findings = train::check_launch(*group, launch, "");
  const auto places =
      all_gather_object(*group, fmt::format("rank {} on {}: {} core(s) of its own", group->rank(),
                                            launch.host, launch.cores_owned()));
  bool fatal = false;
  for (const auto& finding : findings) fatal = fatal || finding.fatal;
  if (group->rank() == 0) {
    fmt::print("Lockstep {}\n", version());
    for (const auto& [name, value] : train::library_versions()) fmt::print("{}: {}\n", name, value);
    fmt::print("{}\n", fmt::join(places, "\n"));
    for (const auto& finding : findings)
      fmt::print("{}: {}\n", finding.fatal ? "error" : "warning", finding.sentence);
    fmt::print("{} finding(s)\n", findings.size());
  }
  group->close();
  return fatal ? ExitCode::bad_input : ExitCode::done;
}

}  // namespace lockstep::utility
