// main() of Google Benchmark programs under mpiexec: rank 0 reports, the others are silent.
// --nodes=2,2 treats the ranks of one machine as several nodes (GroupOptions::pretended_nodes).
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>
#include <lockstep/comm/mpi_group.hpp>
#include <support/mpi_bench.hpp>

namespace lockstep::bench {
namespace {

std::shared_ptr<ProcessGroup> group;
double bootstrap = 0;

class NullReporter : public benchmark::BenchmarkReporter {
 public:
  bool ReportContext(const Context& /*context*/) override { return true; }
  void ReportRuns(const std::vector<Run>& /*runs*/) override {}
};

/// Removes --nodes= from the arguments.
std::vector<std::int64_t> nodes_of(std::vector<char*>& arguments) {
  const std::string option = "--nodes=";
  std::vector<std::int64_t> nodes;
  std::erase_if(arguments, [&](const char* argument) {
    const std::string text(argument);
    if (text.rfind(option, 0) != 0) return false;
    std::istringstream sizes(text.substr(option.size()));
    for (std::string size; std::getline(sizes, size, ',');) nodes.push_back(std::stoll(size));
    return true;
  });
  return nodes;
}

int run(int argc, char** argv) {
  MpiSession session(argc, argv);
  std::vector<char*> arguments(argv, argv + argc);
  GroupOptions options;
  options.pretended_nodes = nodes_of(arguments);
  const auto start = Clock::now();
  group = make_mpi_group(MPI_COMM_WORLD, options);
  bootstrap = all_reduce_scalar(*group, seconds_since(start), ReduceOp::max);
  if (group->rank() != 0) {
    // Only rank 0 writes files (--benchmark_out).
    std::erase_if(arguments, [](const char* argument) {
      return std::string(argument).rfind("--benchmark_out", 0) == 0;
    });
  }
  int count = static_cast<int>(arguments.size());
  benchmark::Initialize(&count, arguments.data());
  if (group->rank() == 0) {
    benchmark::AddCustomContext("ranks", std::to_string(group->size()));
    benchmark::AddCustomContext("pretended nodes", std::to_string(options.pretended_nodes.size()));
    benchmark::RunSpecifiedBenchmarks();
  } else {
    NullReporter silent;
    benchmark::RunSpecifiedBenchmarks(&silent);
  }
  group->close();
  group.reset();
  return 0;
}

}  // namespace

ProcessGroup& world() { return *group; }
double bootstrap_seconds() { return bootstrap; }

}  // namespace lockstep::bench

int main(int argc, char** argv) { return lockstep::bench::run(argc, argv); }
