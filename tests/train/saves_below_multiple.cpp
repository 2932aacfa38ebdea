// If MPI grants less than MPI_THREAD_MULTIPLE, saves are synchronous, and rank 0 logs one line if
// asynchronous ones were requested. Argument: a folder that does not exist.
#include <mpi.h>

#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include <lockstep/base/log.hpp>
#include <lockstep/checkpoint/folder_of_checkpoints.hpp>
#include <lockstep/comm/mpi_group.hpp>
#include <lockstep/train/run/run_saves.hpp>

using namespace lockstep;

namespace {

int failures = 0;

void expect(bool holds, const std::string& what) {
  if (holds) return;
  ++failures;
  std::fprintf(stderr, "FAILED: %s\n", what.c_str());
}

}  // namespace

int main(int argc, char** argv) {
  const std::filesystem::path folder = argc > 1 ? argv[1] : "saves_below_multiple";
  int provided = MPI_THREAD_SINGLE;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
  expect(provided < MPI_THREAD_MULTIPLE, "MPI grants no more than was asked for");
  const auto group = make_mpi_group(MPI_COMM_WORLD);
  std::vector<std::string> lines;
  set_log_sink([&](LogLevel, std::string_view text) { lines.emplace_back(text); });
  for (const bool asked_for : {true, false}) {
    lines.clear();
    train::RunSaves saves(*group, {.async = asked_for}, folder, std::chrono::seconds(60));
    const bool says = group->rank() == 0 && asked_for;
    expect(lines.size() == (says ? 1U : 0U), "one line on rank 0");
    expect(!says || lines.front().find("MPI_THREAD_MULTIPLE") != std::string::npos, "it says why");
    CheckpointContents contents;
    contents.model.insert("weight", Tensor::full({1000}, 1.0));
    contents.train.step = asked_for ? 1 : 2;
    saves.begin(0, {}, contents.model, contents.optimizer);
    saves.start(contents, NotFinite::refuse);
    expect(saves.saved_step() == contents.train.step, "the save is over");
    expect(std::filesystem::exists(checkpoint_path(folder, contents.train.step)),
           "its file is there");
    saves.close();
    group->barrier();
    if (group->rank() == 0) std::filesystem::remove_all(folder);
    group->barrier();
  }
  set_log_sink({});
  group->close();
  MPI_Finalize();
  return failures ? 1 : 0;
}
