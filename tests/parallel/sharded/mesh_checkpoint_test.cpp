// Products of data, sharded data and tensor parallelism: they train as the undivided model, and
// their checkpoints are those of any other mesh and of one rank.
#include <cmath>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>
#include <support/golden_file.hpp>

#include <lockstep/checkpoint/reader.hpp>
#include <lockstep/checkpoint/save/writer.hpp>
#include <lockstep/nn/device_guard.hpp>
#include <lockstep/nn/dtype_guard.hpp>
#include <lockstep/nn/models/gpt.hpp>
#include <lockstep/nn/random.hpp>
#include <lockstep/optim/adam.hpp>
#include <lockstep/optim/clip.hpp>
#include <lockstep/parallel/distributed_data_parallel.hpp>
#include <lockstep/parallel/sharded/fully_shard.hpp>
#include <lockstep/parallel/sharded/zero_redundancy_optimizer.hpp>
#include <lockstep/parallel/tensor/grad_norm.hpp>
#include <lockstep/parallel/tensor/plans.hpp>

#include "../asked_for_device.hpp"
#include "meshes.hpp"

namespace lockstep {
namespace {

class MeshCheckpoint : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, MeshCheckpoint, testing::ValuesIn(test::mesh_rank_counts()));

/// Neither tokens nor heads divide by any number of ranks.
constexpr nn::GptOptions options{
    .vocabulary = 13, .context = 6, .width = 20, .depth = 2, .heads = 5};
constexpr std::int64_t rows = 16;
/// A large eps: Adam divides rounding errors by it where the gradient is 0, as of keys' biases.
constexpr optim::AdamWOptions adamw{.lr = 0.02, .eps = 1e-4};
constexpr double max_norm = 0.5;

Tensor tokens_of(int step, std::int64_t begin, std::int64_t end) {
  std::vector<std::int64_t> tokens;
  for (std::int64_t i = 6 * begin; i < 6 * end; ++i)
    tokens.push_back((i * i + 3 * step + i / 7) % options.vocabulary);
  return Tensor::from(tokens, {end - begin, 6}).to(test::asked_for_device());
}

std::shared_ptr<nn::Gpt> make_model(int seed) {
  const nn::DTypeGuard f64(DType::f64);
  const nn::DeviceGuard device(test::asked_for_device());
  nn::manual_seed(static_cast<std::uint64_t>(seed));
  return std::make_shared<nn::Gpt>(options);
}

/// One rank's undivided model.
struct Undivided {
  explicit Undivided(int seed = 5)
      : model(make_model(seed)), optimizer(model->named_parameters(), adamw) {}
  /// Returns the norm of the gradients.
  double step(int number) {
    const Tensor tokens = tokens_of(number, 0, rows);
    optimizer.zero_grad();
    model->loss(Variable(tokens), tokens).backward();
    const double norm = optim::grad_norm(model->named_parameters());
    optimizer.step(optim::clip_factor(norm, max_norm));
    return norm;
  }
  std::shared_ptr<nn::Gpt> model;
  optim::AdamW optimizer;
};

/// The same on a mesh with some of the dimensions dp, fsdp and tp. Without fsdp the optimizer is
/// shared out over dp.
class OnMesh {
 public:
  explicit OnMesh(DeviceMesh& mesh, int seed = 5) : model_(make_model(seed)) {
    const auto group = [&](const char* dim) {
      return mesh.has(dim) ? mesh.group(dim) : std::shared_ptr<ProcessGroup>();
    };
    if (const auto tp = group("tp"))
      parallelize_gpt(*model_, tp, {.sequence = options.context % tp->size() == 0});
    if (group("fsdp")) {
      fsdp_.emplace(model_, group("fsdp"), FullyShardOptions{.replicate = group("dp")});
      pieces_ = fsdp_->named_parameters();
      optimizer_ = std::make_unique<optim::AdamW>(pieces_, adamw);
      optimizer_->take_placements(fsdp_->state_dict());
    } else {
      ddp_.emplace(model_, group("dp"));
      zero_.emplace(*ddp_, [](auto parameters) {
        return std::make_unique<optim::AdamW>(std::move(parameters), adamw);
      });
      pieces_ = model_->named_parameters();
    }
    if (group("tp")) norm_.emplace(pieces_, model_->state_dict(), group("tp"));
    const std::int64_t dp = mesh.has("dp") ? mesh.size("dp") : 1;
    const std::int64_t fsdp = mesh.has("fsdp") ? mesh.size("fsdp") : 1;
    shares_ = dp * fsdp;
    share_ = (mesh.has("dp") ? mesh.local_rank("dp") : 0) * fsdp +
             (mesh.has("fsdp") ? mesh.local_rank("fsdp") : 0);
  }

  double step(int number) {
    const std::int64_t begin = rows * share_ / shares_, end = rows * (share_ + 1) / shares_;
    const Tensor tokens = tokens_of(number, begin, end);
    const double weight = static_cast<double>(end - begin) / static_cast<double>(rows);
    const auto loss = [&](nn::Module&) { return model_->loss(Variable(tokens), tokens); };
    double norm = 0.0;
    if (fsdp_) {
      fsdp_->zero_grad();
      fsdp_->backward(fsdp_->forward(loss), weight);
      norm = norm_ ? fsdp_->grad_norm(*norm_) : fsdp_->grad_norm();
      optimizer_->step(optim::clip_factor(norm, max_norm));
    } else {
      ddp_->zero_grad();
      ddp_->backward(ddp_->forward(loss), weight);
      norm = norm_ ? norm_->norm() : optim::grad_norm(pieces_);
      zero_->step(optim::clip_factor(norm, max_norm));
    }
    return norm;
  }

  [[nodiscard]] CheckpointContents contents() const {
    CheckpointContents all;
    all.model = fsdp_ ? fsdp_->state_dict() : model_->state_dict();
    all.optimizer = fsdp_ ? optimizer_->state_dict() : zero_->state_dict();
    return all;
  }
  void take(const CheckpointContents& read) {
    if (fsdp_) {
      fsdp_->load_state_dict(read.model);
      optimizer_->load_state_dict(read.optimizer);
    } else {
      model_->load_state_dict(read.model);
      zero_->load_state_dict(read.optimizer);
    }
  }
  void load(ProcessGroup& group, const std::filesystem::path& path) {
    const CheckpointContents own = contents();
    take(load_checkpoint(group, path, own.model, own.optimizer));
  }
  /// Whole tensors, into which of them this rank holds a piece.
  void load_whole_model(const StateDict& model) { fsdp_->load_state_dict(model); }
  [[nodiscard]] bool is_fully_sharded() const { return fsdp_.has_value(); }

 private:
  std::shared_ptr<nn::Gpt> model_;
  std::optional<FullyShardedDataParallel> fsdp_;
  std::optional<DistributedDataParallel> ddp_;
  std::unique_ptr<optim::AdamW> optimizer_;
  std::optional<ZeroRedundancyOptimizer> zero_;
  std::vector<nn::NamedParameter> pieces_;
  std::optional<TensorParallelGradNorm> norm_;
  std::int64_t shares_ = 1, share_ = 0;
};

using Dims = std::vector<MeshDim>;
const std::vector<Dims>& all_meshes() {
  static const std::vector<Dims> meshes{
      {{"dp", 2}, {"tp", 2}},
      {{"fsdp", 2}, {"tp", 2}},
      {{"fsdp", 4}},
      {{"dp", 2}, {"fsdp", 2}},
      {{"dp", 3}, {"tp", 2}},
      {{"fsdp", 3}, {"tp", 2}},
      {{"fsdp", 2}, {"tp", 3}},
      {{"dp", 4}, {"tp", 2}},
      {{"dp", 2}, {"tp", 4}},
      {{"fsdp", 4}, {"tp", 2}},
      {{"dp", 2}, {"fsdp", 2}, {"tp", 2}},
  };
  return meshes;
}

/// A file that all ranks of a group see, while this lives.
class SharedFile {
 public:
  SharedFile(ProcessGroup& group, const std::string& what) : group_(group) {
    const auto name = "lockstep_mesh_" + what + "_" + std::to_string(getpid()) + "_" +
                      std::to_string(group.size()) + ".h5";
    path_ = std::filesystem::temp_directory_path() / broadcast_object(group, name, 0);
  }
  ~SharedFile() {
    if (group_.rank() == 0) std::filesystem::remove(path_);
  }
  SharedFile(const SharedFile&) = delete;
  SharedFile& operator=(const SharedFile&) = delete;
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  ProcessGroup& group_;
  std::filesystem::path path_;
};

void expect_same(const StateDict& actual, const StateDict& expected, double tolerance,
                 const std::string& what) {
  EXPECT_EQ(actual.size(), expected.size()) << what;
  for (const auto& [name, tensor, placement] : expected) {
    const auto* found = actual.find(name);
    ASSERT_NE(found, nullptr) << name << ", " << what;
    EXPECT_LE(test::max_difference(found->tensor, tensor), tolerance) << name << ", " << what;
  }
}

CheckpointContents saved(ProcessGroup& all, const std::filesystem::path& path,
                         const OnMesh& training) {
  all.barrier();  // nobody reads the file any more
  CheckpointWriter().save(all, path, training.contents());
  return load_checkpoint(path);
}

TEST_P(MeshCheckpoint, ProductsTrainAsTheUndividedModel) {
  Undivided alone;
  std::vector<double> norms;
  for (int s = 0; s < 3; ++s) norms.push_back(alone.step(s));
  test::on_ranks(GetParam(), [&](const auto& group) {
    const SharedFile file(*group, "train");
    test::for_each_mesh(group, all_meshes(), [&](DeviceMesh& mesh) {
      const std::string where = to_string(mesh.dims());
      OnMesh training(mesh);
      for (int s = 0; s < 3; ++s)
        EXPECT_NEAR(training.step(s), norms[static_cast<std::size_t>(s)], 1e-10) << where;
      const CheckpointContents whole = saved(*group, file.path(), training);
      expect_same(whole.model, alone.model->state_dict(), 1e-10, where);
      expect_same(whole.optimizer, alone.optimizer.state_dict(), 1e-10, where);
    });
    group->barrier();
  });
}

TEST_P(MeshCheckpoint, AllRanksOfATensorParallelModelLearnOfAGradientThatIsNotFinite) {
  test::on_ranks(GetParam(), [&](const auto& group) {
    test::for_each_mesh(group, all_meshes(), [&](DeviceMesh& mesh) {
      if (!mesh.has("fsdp") || !mesh.has("tp")) return;
      const auto model = make_model(5);
      parallelize_gpt(*model, mesh.group("tp"));
      FullyShardedDataParallel fsdp(
          model, mesh.group("fsdp"),
          {.replicate = mesh.has("dp") ? mesh.group("dp") : std::shared_ptr<ProcessGroup>()});
      for (const auto& [name, piece] : fsdp.named_parameters()) {
        piece.grad_buffer().fill(group->rank() == group->size() - 1 ? HUGE_VAL : 1.0);
        piece.mark_grad_present();
      }
      fsdp.agree_on_found_inf(mesh.group("tp"));
      for (const auto& [name, piece] : fsdp.named_parameters()) {
        for (const double x : piece.grad().to(Device{}).template to_vector<double>())
          EXPECT_TRUE(std::isnan(x)) << name << ", " << to_string(mesh.dims());
      }
    });
  });
}

TEST_P(MeshCheckpoint, IsReadByEveryOtherMeshAndByOneRankWithTheSameBits) {
  test::on_ranks(GetParam(), [&](const auto& group) {
    const SharedFile first(*group, "first"), second(*group, "second");
    test::for_each_mesh(group, all_meshes(), [&](DeviceMesh& mesh) {
      OnMesh writer(mesh);
      for (int s = 0; s < 2; ++s) writer.step(s);
      const CheckpointContents whole = saved(*group, first.path(), writer);
      Undivided alone(6);
      alone.model->load_state_dict(whole.model);
      alone.optimizer.load_state_dict(whole.optimizer);
      const double next = alone.step(2);
      test::for_each_mesh(group, all_meshes(), [&](DeviceMesh& other) {
        const std::string what = to_string(mesh.dims()) + " read by " + to_string(other.dims());
        OnMesh reader(other, 6);
        reader.load(*group, first.path());
        const CheckpointContents again = saved(*group, second.path(), reader);
        expect_same(again.model, whole.model, 0.0, what);
        expect_same(again.optimizer, whole.optimizer, 0.0, what);
        EXPECT_NEAR(reader.step(2), next, 1e-10) << what;
        if (!reader.is_fully_sharded()) return;
        OnMesh third(other, 6);
        third.load_whole_model(whole.model);
        expect_same(saved(*group, second.path(), third).model, whole.model, 0.0,
                    what + ", whole tensors");
      });
      group->barrier();
    });
  });
}

TEST_P(MeshCheckpoint, OfOneRankIsReadByEveryMeshAndResumesWithTheSameBits) {
  test::on_ranks(GetParam(), [&](const auto& group) {
    const SharedFile file(*group, "resume");
    test::for_each_mesh(group, all_meshes(), [&](DeviceMesh& mesh) {
      Undivided alone;
      for (int s = 0; s < 2; ++s) alone.step(s);
      CheckpointContents contents;
      contents.model = alone.model->state_dict();
      contents.optimizer = alone.optimizer.state_dict();
      group->barrier();
      CheckpointWriter().save(*group, file.path(), contents);
      OnMesh training(mesh, 6);
      training.load(*group, file.path());
      const double norm = training.step(2);
      EXPECT_NEAR(norm, alone.step(2), 1e-10);
      const CheckpointContents before = saved(*group, file.path(), training);
      OnMesh resumed(mesh, 7);
      resumed.load(*group, file.path());
      training.step(3);
      resumed.step(3);
      const CheckpointContents expected = saved(*group, file.path(), training);
      const CheckpointContents actual = saved(*group, file.path(), resumed);
      expect_same(actual.model, expected.model, 0.0, to_string(mesh.dims()));
      expect_same(actual.optimizer, expected.optimizer, 0.0, to_string(mesh.dims()));
    });
    group->barrier();
  });
}

}  // namespace
}  // namespace lockstep
