#include <lockstep/train/launch/checks.hpp>

#include <fmt/format.h>
#include <mpi.h>

#include <algorithm>
#include <array>
#include <functional>
#include <iterator>

namespace lockstep::train {
namespace {

/// "MPICH Version: 4.0.2"
std::string mpi_library() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  MPI_Get_library_version(text.data(), &length);
  std::string name(text.data(), static_cast<std::size_t>(length));
  name.resize(std::min(name.size(), name.find('\n')));
  std::ranges::replace(name, '\t', ' ');
  return name;
}

}  // namespace

Findings check_batch_size(std::int64_t batch_size, std::int64_t parts) {
  if (batch_size >= parts) return {};
  const std::int64_t idle = parts - batch_size;
  return {
      {Finding::Severity::warning, "batch size",
       fmt::format("train.batch_size = {} is less than the {} ranks: {} of them {} no sample in "
                   "any step",
                   batch_size, parts, idle, idle == 1 ? "has" : "have"),
       "Use a larger batch, or fewer ranks."}};
}

Findings check_launch(const Launch& launch) {
  Findings all;
  for (Findings& found :
       std::array{check_world_of_one(launch, mpi_library()), check_same_everywhere(launch),
                  check_cores(launch), check_gpus(launch), check_thread_level(launch)}) {
    std::ranges::move(found, std::back_inserter(all));
  }
  std::stable_partition(all.begin(), all.end(), std::mem_fn(&Finding::is_error));
  return all;
}

}  // namespace lockstep::train
