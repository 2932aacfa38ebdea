// The loss curve is that of one rank on every mesh of 2, 4, 6 and 8 ranks: of a GPT and an MLP over
// 50 steps to a thousandth, of a ResNet-18, whose rounding grows, over 20 steps to two hundredths.
#include <gtest/gtest.h>

#include <apps/mesh_runs.hpp>
#include <cstdlib>
#include <functional>
#include <map>
#include <string>

namespace lockstep::test {
namespace {

/// Sizes by dimension, and the stage of ZeRO.
struct MeshCase {
  std::map<std::string, int> sizes;
  int zero = 0;

  [[nodiscard]] int ranks() const {
    int product = 1;
    for (const auto& [dim, size] : sizes) product *= size;
    return product;
  }
  [[nodiscard]] int size(const std::string& dim) const {
    const auto at = sizes.find(dim);
    return at == sizes.end() ? 1 : at->second;
  }
  [[nodiscard]] Words settings() const {
    Words all{"train.zero=" + std::to_string(zero)};
    for (const auto& [dim, size] : sizes) all.push_back("mesh." + dim + "=" + std::to_string(size));
    return all;
  }
  [[nodiscard]] std::string name() const {
    std::string all;
    for (const auto& [dim, size] : sizes)
      if (size > 1) all += dim + std::to_string(size) + "_";
    return all + "zero" + std::to_string(zero);
  }
};

/// All meshes of `ranks` ranks over these dimensions that decks allow, with every stage of ZeRO.
std::vector<MeshCase> meshes_of(int ranks, const Words& dims) {
  std::vector<MeshCase> all;
  const std::function<void(MeshCase, std::size_t, int)> extend = [&](MeshCase mesh, std::size_t i,
                                                                     int left) {
    if (i == dims.size()) {
      if (left > 1 || (mesh.size("pp") > 1 && mesh.size("cp") > 1)) return;
      const bool shares = mesh.size("dp") * mesh.size("fsdp") * mesh.size("cp") > 1;
      for (mesh.zero = 0; mesh.zero <= 3; ++mesh.zero) {
        if (mesh.size("fsdp") > 1 && mesh.zero < 2) continue;
        if (mesh.zero > 0 && !shares) continue;
        if (mesh.zero > 1 && mesh.size("pp") > 1) continue;
        all.push_back(mesh);
      }
      return;
    }
    for (int size = 1; size <= left; ++size) {
      if (left % size != 0) continue;
      mesh.sizes[dims[i]] = size;
      extend(mesh, i + 1, left / size);
    }
  };
  extend({}, 0, ranks);
  return all;
}

/// All of them with LOCKSTEP_ALL_MESHES (some minutes), else every `n`-th of those of at most
/// `most` ranks.
std::vector<MeshCase> chosen(const Words& dims, std::size_t n, int most = 8) {
  const bool wants_all = std::getenv("LOCKSTEP_ALL_MESHES") != nullptr;
  std::vector<MeshCase> all, some;
  for (const int ranks : {2, 4, 6, 8}) {
    if (!wants_all && ranks > most) continue;
    for (const MeshCase& mesh : meshes_of(ranks, dims)) all.push_back(mesh);
  }
  if (wants_all) return all;
  for (std::size_t i = n / 2; i < all.size(); i += n) some.push_back(all[i]);
  return some;
}

class Curves : public MeshRuns {
 protected:
  void expect_curve(const MeshCase& mesh, double tolerance) const {
    expect_same_curve("one", mesh.name(), tolerance);
    std::filesystem::remove_all(scratch_.file(mesh.name()));
  }
};

TEST_F(Curves, OfAGptAreThoseOfOneRankOnAllMeshes) {
  const Words net{"model.depth=8",        "model.heads=8",           "model.residual_dropout=0",
                  "data.context=48",      "train.epochs=4",          "train.batch_size=24",
                  "data.train_limit=312", "checkpoint.every_steps=0"};
  good(gpt(1, "one", net));
  for (const MeshCase& mesh : chosen({"pp", "dp", "fsdp", "cp", "tp"}, 60)) {
    SCOPED_TRACE(mesh.name());
    good(gpt(mesh.ranks(), mesh.name(), joined(net, mesh.settings())));
    expect_curve(mesh, 1e-3);
  }
}

TEST_F(Curves, OfAnMlpAreThoseOfOneRankOnAllMeshes) {
  const Words net{"model.hidden=[32,32,32,32,32,32,32,32]", "train.epochs=5",
                  "checkpoint.every_steps=0"};
  good(mlp(1, "one", net));
  for (const MeshCase& mesh : chosen({"pp", "dp", "fsdp", "tp"}, 24)) {
    SCOPED_TRACE(mesh.name());
    good(mlp(mesh.ranks(), mesh.name(), joined(net, mesh.settings())));
    expect_curve(mesh, 1e-3);
  }
}

TEST_F(Curves, OfAResNetAreThoseOfOneRankOnAllMeshes) {
  // A small step, as a larger one makes rounding grow to percents within ten steps.
  const Words net{
      "model.kind=\"resnet18\"",    "train.batch_size=24",         "train.epochs=2",
      "data.synthetic_samples=240", "data.synthetic_image_size=8", "data.synthetic_test_samples=24",
      "checkpoint.every_steps=0",   "optimizer.lr=0.0001"};
  const auto train = [&](int ranks, const std::string& dir, const Words& more) {
    good(classify(ranks, small_run(scratch_.file(dir), settings(dir, joined(net, more)))));
  };
  train(1, "one", {});
  // Each rank updates 11 million parameters: with eight ranks a minute of processor time.
  constexpr int most = 4;
  for (const MeshCase& mesh : chosen({"dp", "fsdp"}, 7, most)) {
    SCOPED_TRACE(mesh.name());
    train(mesh.ranks(), mesh.name(), joined(mesh.settings(), {"ddp.sync_batch_norm=true"}));
    expect_curve(mesh, 2e-2);
  }
  for (const MeshCase& mesh : chosen({"pp"}, 2, most)) {  // BatchNorm sees a micro-batch
    SCOPED_TRACE(mesh.name());
    train(mesh.ranks(), mesh.name(), joined(mesh.settings(), {"pipeline.microbatches=1"}));
    expect_curve(mesh, 2e-2);
  }
}

}  // namespace
}  // namespace lockstep::test
