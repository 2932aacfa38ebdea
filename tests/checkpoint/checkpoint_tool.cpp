// A program that saves and checks, for tests that break it from outside (kill_test.cpp, *.sh):
//   checkpoint_tool save FOLDER STEP MIB    collective over MPI; exit 4 and one line if it fails
//   checkpoint_tool async FOLDER STEP MIB   the same, asynchronously
//   checkpoint_tool check FOLDER STEP MIB   loads that one on every rank and compares the bits
//   checkpoint_tool newest FOLDER           prints the newest good one
//   checkpoint_tool loop FOLDER MIB         two ranks as threads: saves step after step, for ever
//   checkpoint_tool die FOLDER MIB CALL N   the same: saves step 1, then dies at the Nth CALL
//   (pwrite,
//                                           fsync, rename, renamed, stage) of saving step 2
//   checkpoint_tool keep FILE               two ranks as threads: writes a file for
//   tests/checkpoint/kept
#include <mpi.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include <checkpoint/death.hpp>
#include <checkpoint/kept_contents.hpp>
#include <lockstep/base/log.hpp>
#include <lockstep/checkpoint/file/manifest.hpp>
#include <lockstep/checkpoint/folder_of_checkpoints.hpp>
#include <lockstep/checkpoint/run_checkpoints.hpp>
#include <lockstep/checkpoint/save/async_writer.hpp>
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
  const auto columns = test::part_of(test::pattern({30, 70}, static_cast<float>(step)),
                                     test::columns({30, 70}, rank, ranks));
  contents.model.insert("d", columns.first, columns.second);
  contents.train.step = step;
  return contents;
}

SaveReport save_now(ProcessGroup& group, const std::filesystem::path& path,
                    const CheckpointContents& contents) {
  return CheckpointWriter().save(group, path, contents);
}

SaveReport save_meanwhile(ProcessGroup& group, const std::filesystem::path& path,
                          const CheckpointContents& contents) {
  AsyncCheckpointWriter writer(group);
  return writer.save(group, path, contents).get();
}

template <auto way>
void save(ProcessGroup& group, const std::string& folder, std::int64_t step, std::int64_t mib) {
  const auto report =
      way(group, checkpoint_path(folder, step), contents_of(step, mib, group.rank(), group.size()));
  if (group.rank() != 0) return;
  std::printf("saved %s, %.0f MB/s\n", checkpoint_path(folder, step).c_str(),
              static_cast<double>(report.bytes) / report.seconds * 1e-6);
}

void check(ProcessGroup& group, const std::string& folder, std::int64_t step, std::int64_t mib) {
  const auto got = load_checkpoint(group, checkpoint_path(folder, step));
  const auto mine = contents_of(step, mib, group.rank(), group.size());
  const auto part = load_checkpoint(group, checkpoint_path(folder, step), mine.model);
  const auto want = contents_of(step, mib, 0, 1);
  bool same = got.train == want.train && got.model.size() == want.model.size();
  for (const auto& entry : want.model)
    same = same && test::same_bits(got.model.at(entry.name), entry.tensor);
  for (const auto& entry : mine.model)
    same = same && test::same_bits(part.model.at(entry.name), entry.tensor);
  if (!same) throw CheckpointError("other bits were loaded than saved");
}

[[noreturn]] void loop(const std::string& folder, std::int64_t mib) {
  const auto newest = newest_good_checkpoint(folder);
  std::int64_t step = newest ? load_checkpoint(*newest).train.step : 0;
  RunCheckpoints checkpoints(folder, {.keep = 3});
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

[[noreturn]] void die(const std::string& folder, std::int64_t mib, const std::string& call, int n) {
  run_ranks_as_threads(2, [&](ProcessGroup& group) {
    AsyncCheckpointWriter writer(group);
    auto contents = contents_of(1, mib, group.rank(), group.size());
    writer.save(group, checkpoint_path(folder, 1), contents).get();
    contents = contents_of(2, mib, group.rank(), group.size());
    if (call == "stage") {
      contents.model.insert("deadly", test::deadly_tensor(mib << 20));
    } else {
      test::die_at(call.c_str(), n);
    }
    writer.save(group, checkpoint_path(folder, 2), contents).get();
  });
  std::printf("it lives\n");
  std::exit(1);
}

void keep(const std::filesystem::path& path) {
  run_ranks_as_threads(2, [&](ProcessGroup& group) {
    CheckpointWriter(Compression::deflate)
        .save(group, path, test::kept_contents(Header::newest_format, group.rank(), group.size()));
  });
}

int run(const std::vector<std::string>& words) {
  const std::string& verb = words.at(0);
  const std::string& folder = words.at(1);
  if (verb == "loop") loop(folder, std::stoll(words.at(2)));
  if (verb == "die") die(folder, std::stoll(words.at(2)), words.at(3), std::stoi(words.at(4)));
  if (verb == "keep") {
    keep(folder);
    return 0;
  }
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
    const auto act = verb == "save"    ? save<save_now>
                     : verb == "async" ? save<save_meanwhile>
                                       : check;
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

// In place of the C library's, see checkpoint/death.hpp.
extern "C" {
ssize_t pwrite(int file, const void* data, size_t bytes, off_t offset) {
  lockstep::test::die_if_it_is("pwrite");
  return ::syscall(SYS_pwrite64, file, data, bytes, offset);
}
int fsync(int file) {
  lockstep::test::die_if_it_is("fsync");
  return static_cast<int>(::syscall(SYS_fsync, file));
}
int rename(const char* from, const char* to) noexcept {
  lockstep::test::die_if_it_is("rename");
  const auto status = static_cast<int>(::syscall(SYS_rename, from, to));
  lockstep::test::die_if_it_is("renamed");
  return status;
}
}

int main(int argc, char** argv) {
  lockstep::set_log_sink([](lockstep::LogLevel, std::string_view message) {
    std::fprintf(stderr, "%.*s\n", static_cast<int>(message.size()), message.data());
  });
  return lockstep::run({argv + 1, argv + argc});
}
