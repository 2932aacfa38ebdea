#include <gtest/gtest.h>
#include <mpi.h>
#include <sys/resource.h>

#include <cmath>
#include <csignal>
#include <filesystem>
#include <optional>

#include <checkpoint/sample.hpp>
#include <comm/no_thread_starts.hpp>
#include <lockstep/checkpoint/save/async_writer.hpp>
#include <lockstep/comm/mpi_group.hpp>
#include <lockstep/comm/objects.hpp>

namespace lockstep {
namespace {

using test::checkpoint_error_of;
using test::contains;
using test::expect_sample;
using test::sample;

/// A path shared by all ranks and unique to this test; rank 0 clears it.
std::filesystem::path shared_path(ProcessGroup& group, const std::string& name) {
  std::string path;
  if (group.rank() == 0)
    path = test::scratch("mpi-" + std::to_string(group.size()) + "-" + name).string();
  return broadcast_object(group, path, 0);
}

std::ptrdiff_t files_beside(const std::filesystem::path& path) {
  return std::distance(std::filesystem::directory_iterator(path.parent_path()), {});
}

TEST(CheckpointOnMpi, TheBitsSavedComeBackOnEveryRank) {
  const auto group = make_mpi_group(MPI_COMM_WORLD);
  const auto path = shared_path(*group, "round-trip") / "a.h5";
  const auto report = CheckpointWriter().save(*group, path, sample(group->rank(), group->size()));
  EXPECT_EQ(report.bytes, static_cast<std::int64_t>(std::filesystem::file_size(path)));
  expect_sample(load_checkpoint(*group, path));
  group->close();
}

/// A limit on the size of files on the last rank stands for a failing disk: the write really fails
/// there, and only there.
TEST(CheckpointOnMpi, AWriteThatFailsOnOneRankFailsOnAllAndThePreviousFileStays) {
  const auto group = make_mpi_group(MPI_COMM_WORLD);
  const int culprit = group->size() - 1;
  const auto path = shared_path(*group, "one-rank") / "a.h5";
  CheckpointWriter().save(*group, path, sample(group->rank(), group->size(), 0));

  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  if (group->rank() == culprit) {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit small{1'000'000, before.rlim_max};
    setrlimit(RLIMIT_FSIZE, &small);
  }
  const auto contents = sample(group->rank(), group->size(), 50);
  const auto error = checkpoint_error_of([&] { CheckpointWriter().save(*group, path, contents); });
  if (group->rank() == culprit) setrlimit(RLIMIT_FSIZE, &before);
  group->barrier();

  EXPECT_TRUE(contains(error, "File too large")) << error;
  EXPECT_EQ(contains(error, "rank " + std::to_string(culprit) + " of "), group->size() > 1)
      << error;
  EXPECT_EQ(files_beside(path), 1);
  expect_sample(load_checkpoint(path), 0);
  group->barrier();
  CheckpointWriter().save(*group, path, contents);
  expect_sample(load_checkpoint(path), 50);
  group->close();
}

TEST(CheckpointOnMpi, AThreadThatCannotStartOnOneRankFailsOnAllAndTheNextSaveWorks) {
  const auto group = make_mpi_group(MPI_COMM_WORLD);
  const int culprit = group->size() - 1;
  const auto path = shared_path(*group, "no-thread") / "a.h5";
  const auto contents = sample(group->rank(), group->size());
  AsyncCheckpointWriter writer(*group);
  std::optional<test::NoThreadStarts> none;
  if (group->rank() == culprit) none.emplace();
  const auto error =
      checkpoint_error_of([&] { static_cast<void>(writer.save(*group, path, contents)); });
  none.reset();
  EXPECT_TRUE(contains(error, "cannot start a thread for it")) << error;
  static_cast<void>(writer.save(*group, path, contents).get());
  expect_sample(load_checkpoint(*group, path));
  writer.close();
  group->close();
}

void set_element(const Tensor& t, std::int64_t at, double value) {
  t.reshape({t.numel()}).slice(at, at + 1).fill(value);
}

/// On the last rank of a sharded tensor, in the last element of one of many slabs, in the
/// optimizer's state: each is detected on all ranks, and the earlier file stays.
TEST(CheckpointOnMpi, AStateThatIsNotFiniteIsRefusedOnAllRanksNamingTheTensor) {
  const auto group = make_mpi_group(MPI_COMM_WORLD);
  const auto path = shared_path(*group, "not-finite") / "a.h5";
  CheckpointWriter().save(*group, path, sample(group->rank(), group->size()));
  const std::string infinite = "optimizer/conv1.weight/momentum_buffer";
  for (const std::string name : {"model/table", "model/fc.weight", infinite.c_str()}) {
    for (const double value : {std::nan(""), -HUGE_VAL}) {
      auto contents = sample(group->rank(), group->size(), 50);
      const auto& state = name.starts_with("model/") ? contents.model : contents.optimizer;
      const Tensor t = state.at(name.substr(name.find('/') + 1));
      const bool mine = name != "model/table" || group->rank() == group->size() - 1;
      if (mine) set_element(t, t.numel() - 1, value);
      std::string error;
      try {
        CheckpointWriter().save(*group, path, contents);
      } catch (const NotFiniteError& e) {
        error = e.what();
      }
      EXPECT_TRUE(contains(error, "/" + name + " has elements that are not finite")) << error;
      EXPECT_TRUE(contains(error, path.string())) << error;
      group->barrier();
      EXPECT_EQ(files_beside(path), 1);
      expect_sample(load_checkpoint(*group, path));
    }
  }
  group->close();
}

TEST(CheckpointOnMpi, AStateThatIsNotFiniteIsSavedAndNamedWhereTheCallerSaysSo) {
  const auto group = make_mpi_group(MPI_COMM_WORLD);
  const auto path = shared_path(*group, "saved-anyway") / "a.h5";
  auto contents = sample(group->rank(), group->size());
  EXPECT_EQ(CheckpointWriter().save(*group, path, contents).not_finite, "");
  set_element(contents.model.at("fc.weight"), 7, std::nan(""));
  EXPECT_EQ(CheckpointWriter().save(*group, path, contents, NotFinite::save).not_finite,
            "/model/fc.weight");
  const auto got = load_checkpoint(*group, path).model.at("fc.weight").to_vector<float>();
  EXPECT_TRUE(std::isnan(got[7]));
  group->close();
}

}  // namespace
}  // namespace lockstep
