// A mesh over ranks: the ranks of each group, and refusals.
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <support/message_of.hpp>

#include <lockstep/base/clock.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/comm/agreement.hpp>
#include <lockstep/comm/fake_group.hpp>
#include <lockstep/parallel/mesh/device_mesh.hpp>

#include "../ranks.hpp"

namespace lockstep {
namespace {

class Meshes : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, Meshes, ::testing::ValuesIn(test::rank_counts()));

/// The factors of `ranks` in three dimensions, each possible triple.
std::vector<std::vector<MeshDim>> meshes_of(int ranks) {
  std::vector<std::vector<MeshDim>> all;
  for (int a = 1; a <= ranks; ++a) {
    for (int b = 1; ranks % a == 0 && b <= ranks / a; ++b) {
      if (ranks / a % b == 0) all.push_back({{"pp", a}, {"dp", b}, {"tp", ranks / a / b}});
    }
  }
  return all;
}

TEST_P(Meshes, GroupTheRanksThatDifferInTheNamedDimensionsOnlyInRowMajorOrder) {
  const int size = GetParam();
  test::on_ranks(size, [&](const auto& group) {
    for (const auto& dims : meshes_of(size)) {
      const std::string what = to_string(dims);
      DeviceMesh mesh(group, dims);
      const int pp = dims[0].size, dp = dims[1].size, tp = dims[2].size;
      const int r = group->rank();
      const std::vector<int> at{r / (dp * tp), r / tp % dp, r % tp};
      EXPECT_EQ(mesh.coordinate(), at) << what;
      EXPECT_EQ(mesh.rank_at(at), r) << what;
      EXPECT_EQ(mesh.coordinate_of(r), at) << what;

      const auto rank = [&](int p, int d, int t) { return (p * dp + d) * tp + t; };
      std::vector<int> of_pp, of_dp, of_tp, of_pp_tp;
      for (int p = 0; p < pp; ++p) of_pp.push_back(rank(p, at[1], at[2]));
      for (int d = 0; d < dp; ++d) of_dp.push_back(rank(at[0], d, at[2]));
      for (int t = 0; t < tp; ++t) of_tp.push_back(rank(at[0], at[1], t));
      for (int p = 0; p < pp; ++p)
        for (int t = 0; t < tp; ++t) of_pp_tp.push_back(rank(p, at[1], t));
      EXPECT_EQ(mesh.group("pp")->ranks(), of_pp) << what;
      EXPECT_EQ(mesh.group("dp")->ranks(), of_dp) << what;
      EXPECT_EQ(mesh.group("tp")->ranks(), of_tp) << what;
      const auto both = mesh.flatten({"pp", "tp"});
      EXPECT_EQ(both->ranks(), of_pp_tp) << what;
      EXPECT_EQ(both, mesh.flatten({"pp", "tp"})) << "made once";
      EXPECT_EQ(both->name(), "pp_tp");
      EXPECT_EQ(mesh.group("dp")->name(), "dp");
      EXPECT_EQ(mesh.local_rank("dp"), mesh.group("dp")->rank());
      EXPECT_EQ(mesh.size("tp"), mesh.group("tp")->size());
      // They communicate.
      const auto seen = agree(*mesh.group("dp"), [&] { return r; });
      EXPECT_EQ(seen, of_dp) << what;
      mesh.close();
      EXPECT_EQ(test::message_of<Error>([&] { static_cast<void>(mesh.group("pp")); }),
                "DeviceMesh::group: the mesh was closed");
    }
  });
}

TEST_P(Meshes, OneDimensionTakesTheRanksThatTheOthersLeave) {
  test::on_ranks(GetParam(), [&](const auto& group) {
    DeviceMesh mesh(group, {{"dp", -1}, {"tp", 1}});
    EXPECT_EQ(mesh.size("dp"), group->size());
    mesh.close();
  });
}

TEST_P(Meshes, RefuseOnAllRanksAlikeAndTheGroupStaysUsable) {
  test::on_ranks(GetParam(), [&](const auto& group) {
    const int n = group->size();
    const auto refusal = [&](const std::vector<MeshDim>& dims) {
      return test::message_of<InputError>([&] { DeviceMesh(group, dims); });
    };
    EXPECT_NE(refusal({{"dp", n}, {"tp", 2}}).find("their product is"), std::string::npos);
    EXPECT_NE(refusal({{"dp", -1}, {"tp", n + 1}}).find("do not divide by"), std::string::npos);
    EXPECT_NE(refusal({{"dp", n}, {"dp", 1}}).find("two dimensions are named dp"),
              std::string::npos);
    EXPECT_NE(refusal({{"dp", -1}, {"tp", -1}}).find("at least 1"), std::string::npos);
    EXPECT_NE(refusal({{"", n}}).find("no name"), std::string::npos);
    EXPECT_NE(refusal({}).find("at least one dimension"), std::string::npos);
    if (n > 1) {
      const std::string differ = refusal({{group->rank() == n - 1 ? "tp" : "dp", n}});
      EXPECT_NE(differ.find("rank " + std::to_string(n - 1) + " passed tp="), std::string::npos);
    }
    DeviceMesh mesh(group, {{"dp", n}});
    EXPECT_NE(
        test::message_of<InputError>([&] { static_cast<void>(mesh.group("tp")); }).find("dp="),
        std::string::npos);
    EXPECT_THROW(static_cast<void>(mesh.rank_at({n})), InputError);
    EXPECT_THROW(static_cast<void>(mesh.coordinate_of(-1)), InputError);
    mesh.close();
  });
}

TEST_P(Meshes, PutTheLastDimensionOnOneNodeWhateverOrderTheLauncherGivesTheRanks) {
  const int size = GetParam();
  if (size % 2 != 0) return;
  std::vector<std::string> hosts;  // ranks go to two nodes in turn
  for (int r = 0; r < size; ++r) hosts.push_back(r % 2 == 0 ? "a" : "b");
  test::on_ranks(size, [&](const auto& group) {
    DeviceMesh mesh(group, {{"dp", 2}, {"tp", size / 2}}, NodeLayout(hosts));
    const int node = group->rank() % 2;
    EXPECT_EQ(mesh.coordinate(), (std::vector<int>{node, group->rank() / 2}));
    for (const int r : mesh.group("tp")->ranks()) EXPECT_EQ(r % 2, node);
    mesh.close();
  });
}

TEST(MeshOfManyRanks, IsPlannedByOneProcessInLessThanTwoSeconds) {
  const auto begin = Clock::now();
  DeviceMesh mesh(std::make_shared<FakeGroup>(4096, 3071), {{"pp", 64}, {"dp", 8}, {"tp", 8}});
  EXPECT_EQ(mesh.coordinate(), (std::vector<int>{47, 7, 7}));
  EXPECT_EQ(mesh.group("tp")->ranks().front(), 3064);
  EXPECT_EQ(mesh.flatten({"pp", "dp"})->size(), 512);
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  constexpr double limit = 20.0;  // sanitizers take their time
#else
  constexpr double limit = 2.0;
#endif
  EXPECT_LT(seconds_since(begin), limit);
}

}  // namespace
}  // namespace lockstep
