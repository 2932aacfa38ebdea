// A program that saves and checks, for tests that break it from outside (kill_test.cpp, *.sh):
//   checkpoint_tool save FOLDER STEP MIB    collective over MPI; exit 4 and one line if it fails
//   checkpoint_tool check FOLDER STEP MIB   loads that one on every rank and compares the bits
//   checkpoint_tool newest FOLDER           prints the newest good one
//   checkpoint_tool loop FOLDER MIB         two ranks as threads: saves step after step, for ever
#include <mpi.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include <checkpoint/sample.hpp>
#include <lockstep/base/log.hpp>
#include <lockstep/checkpoint/folder_of_checkpoints.hpp>
#include <lockstep/checkpoint/run_checkpoints.hpp>
#include <lockstep/comm/mpi_group.hpp>

namespace lockstep {
namespace {

CheckpointContents contents_of(std::int64_t step, std::int64_t mib, int rank, int ranks) {
  CheckpointContents contents;
  contents.model.insert("a", test::pattern({7, 3}, static_cast<float>(step)));
  contents.model.insert("b", test::pattern({mib << 17}, static_cast<float>(step)));
  const auto [rows, placement] =
      test::shard(test::pattern({mib << 9, 256}, static_cast<float>(step)), rank, ranks);
  contents.model.insert("c", rows, placement);
  contents.train.step = step;
  return contents;
}

void save(ProcessGroup& group, const std::string& folder, std::int64_t step, std::int64_t mib) {
  const auto report = CheckpointWriter().save(group, checkpoint_path(folder, step),
                                              contents_of(step, mib, group.rank(), group.size()));
  if (group.rank() != 0) return;
  std::printf("saved %s, %.0f MB/s\n", checkpoint_path(folder, step).c_str(),
              static_cast<double>(report.bytes) / report.seconds * 1e-6);
}

void check(ProcessGroup& group, const std::string& folder, std::int64_t step, std::int64_t mib) {
  const auto got = load_checkpoint(group, checkpoint_path(folder, step));
  const auto want = contents_of(step, mib, 0, 1);
  bool same = got.train == want.train && got.model.size() == want.model.size();
  for (const auto& entry : want.model)
    same = same && test::bits_of(got.model.at(entry.name)) == test::bits_of(entry.tensor);
  if (!same) throw CheckpointError("other bits were loaded than saved");
}

[[noreturn]] void loop(const std::string& folder, std::int64_t mib) {
  const auto newest = newest_good_checkpoint(folder);
  std::int64_t step = newest ? load_checkpoint(*newest).train.step : 0;
  RunCheckpoints checkpoints(folder, 3);
  checkpoints.begin(newest);
  run_ranks_as_threads(2, [&](ProcessGroup& group) {
    for (std::int64_t next = step + 1;; ++next) {
      CheckpointWriter().save(group, checkpoint_path(folder, next),
                              contents_of(next, mib, group.rank(), group.size()));
      if (group.rank() != 0) continue;
      std::printf("%lld\n", static_cast<long long>(next));
      std::fflush(stdout);
      checkpoints.saved(checkpoint_path(folder, next));
    }
  });
  std::abort();
}

int run(const std::vector<std::string>& words) {
  const std::string& verb = words.at(0);
  const std::string& folder = words.at(1);
  if (verb == "loop") loop(folder, std::stoll(words.at(2)));
  if (verb == "newest") {
    const auto path = newest_good_checkpoint(folder);
    std::printf("%s\n", path ? path->c_str() : "none");
    return 0;
  }
  int argc = 0;
  char** argv = nullptr;
  const MpiSession session(argc, argv);
  const auto group = make_mpi_group(MPI_COMM_WORLD);
  int code = 0;
  try {
    const auto act = verb == "save" ? save : check;
    act(*group, folder, std::stoll(words.at(2)), std::stoll(words.at(3)));
  } catch (const Error& e) {
    if (group->rank() == 0) std::fprintf(stderr, "%s\n", e.what());
    code = static_cast<int>(e.exit_code());
  }
  group->close();
  return code;
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) {
  lockstep::set_log_sink([](lockstep::LogLevel, std::string_view message) {
    std::fprintf(stderr, "%.*s\n", static_cast<int>(message.size()), message.data());
  });
  return lockstep::run({argv + 1, argv + argc});
}
