// FullyShardedDataParallel with replicas: sharded within groups, replicated over them (HSDP).
#include <cmath>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>
#include <support/golden_file.hpp>
#include <support/message_of.hpp>

#include <lockstep/base/error.hpp>
#include <lockstep/checkpoint/reader.hpp>
#include <lockstep/checkpoint/save/writer.hpp>
#include <lockstep/optim/adam.hpp>
#include <lockstep/optim/clip.hpp>
#include <lockstep/optim/grad_scaler.hpp>
#include <lockstep/optim/sgd.hpp>

#include "../sharded_step.hpp"
#include "../stack_model.hpp"
#include "meshes.hpp"

namespace lockstep {
namespace {

using test::Batch;
using test::loss_of_share;
using test::make_batch;
using test::max_difference;
using test::message_of;
using test::Stack;
using test::TwoOutputs;
using test::weight_of;

class HybridShard : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, HybridShard, testing::ValuesIn(test::mesh_rank_counts()));

template <class Body>
void on_meshes(int ranks, const Body& body) {
  test::on_ranks(ranks, [&](const auto& group) {
    test::for_each_mesh(group,
                        {{{"dp", 2}, {"fsdp", 2}},
                         {{"dp", 4}, {"fsdp", 1}},
                         {{"dp", 3}, {"fsdp", 2}},
                         {{"dp", 2}, {"fsdp", 3}},
                         {{"dp", 4}, {"fsdp", 2}},
                         {{"dp", 2}, {"fsdp", 4}}},
                        [&](DeviceMesh& mesh) { body(mesh, *group); });
  });
}

FullyShardOptions with_replicas(const DeviceMesh& mesh, FullyShardOptions options = {}) {
  options.replicate = mesh.group("dp");
  return options;
}

Batch share_of_all(const Batch& batch, const ProcessGroup& all) {
  return batch.share(all.rank(), all.size());
}

void backward(FullyShardedDataParallel& fsdp, const Batch& batch, const ProcessGroup& all) {
  const Batch share = share_of_all(batch, all);
  fsdp.zero_grad();
  fsdp.backward(loss_of_share(fsdp, share), weight_of(share, batch));
}

void train(nn::Module& model, optim::Optimizer& optimizer, const Batch& batch) {
  optimizer.zero_grad();
  loss_of_share(model, batch).backward();
  optimizer.step();
}

void expect_equal(FullyShardedDataParallel& fsdp, const nn::Module& reference, double tolerance,
                  const std::string& what) {
  const auto gathered = fsdp.gathered();
  const auto actual = fsdp.module().named_parameters(), expected = reference.named_parameters();
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_LE(max_difference(actual[i].variable.data(), expected[i].variable.data()), tolerance)
        << actual[i].name << ", " << what;
  }
}

/// One step of plain descent with rate 1 shows pieces of gradients as whole ones.
void expect_same_descent(FullyShardedDataParallel& fsdp, nn::Module& model, double tolerance,
                         const std::string& what) {
  optim::SGD sharded(fsdp.trained_parameters(), {.lr = 1.0});
  optim::SGD whole(model.trained_parameters(), {.lr = 1.0});
  sharded.step();
  whole.step();
  expect_equal(fsdp, model, tolerance, what);
}

std::string bits_of_pieces(const FullyShardedDataParallel& fsdp) {
  std::string bits;
  for (const auto& [name, piece] : fsdp.named_parameters()) bits += test::bytes_of(piece.data());
  return bits;
}

TEST_P(HybridShard, StepsEqualThoseOfTheUndividedModel) {
  const std::vector<FullyShardOptions> ways{
      {}, {.reshard_after_forward = false}, {.units = {"h.1"}}, {.units = {"h.0", "h.?"}}};
  for (const std::int64_t rows : {13, 3}) {  // of 3 rows some ranks have none
    Stack alone;
    optim::AdamW reference(alone.trained_parameters(), {.lr = 0.01});
    for (int s = 0; s < 3; ++s) train(alone, reference, make_batch(rows, 0.1 * s));
    on_meshes(GetParam(), [&](DeviceMesh& mesh, ProcessGroup& all) {
      for (const FullyShardOptions& way : ways) {
        FullyShardedDataParallel fsdp(std::make_shared<Stack>(), mesh.group("fsdp"),
                                      with_replicas(mesh, way));
        optim::AdamW optimizer(fsdp.named_parameters(), {.lr = 0.01});
        for (int s = 0; s < 3; ++s) {
          backward(fsdp, make_batch(rows, 0.1 * s), all);
          optimizer.step();
        }
        expect_equal(fsdp, alone, 1e-10, to_string(mesh.dims()));
        EXPECT_TRUE(test::same_on_all_ranks(*mesh.group("dp"), bits_of_pieces(fsdp)));
        EXPECT_EQ(fsdp.never_used(), std::vector<std::string>{"unused"});
      }
    });
  }
}

TEST_P(HybridShard, GradientsAndTheirNormAreThoseOfTheUndividedModel) {
  const Batch batch = make_batch(13, 0.3);
  on_meshes(GetParam(), [&](DeviceMesh& mesh, ProcessGroup& all) {
    Stack alone;
    loss_of_share(alone, batch).backward();
    const double expected = optim::grad_norm(alone.named_parameters());
    FullyShardedDataParallel fsdp(std::make_shared<Stack>(), mesh.group("fsdp"),
                                  with_replicas(mesh));
    backward(fsdp, batch, all);
    const double norm = fsdp.grad_norm();
    EXPECT_NEAR(norm, expected, 1e-13 * expected);
    EXPECT_TRUE(test::same_on_all_ranks(
        all, std::string(reinterpret_cast<const char*>(&norm), sizeof norm)));
    expect_same_descent(fsdp, alone, 1e-13, to_string(mesh.dims()));
  });
}

TEST_P(HybridShard, LossBackwardGivesTheMeanOverAllRanksAndPassesAddUp) {
  const Batch batch = make_batch(48, 0.3);  // divides by every number of ranks, twice
  on_meshes(GetParam(), [&](DeviceMesh& mesh, ProcessGroup& all) {
    FullyShardedDataParallel fsdp(std::make_shared<Stack>(), mesh.group("fsdp"),
                                  with_replicas(mesh));
    Stack alone;
    const Batch share = share_of_all(batch, all);
    const double ranks = all.size();
    const std::int64_t half = share.rows() / 2;
    const Batch first = share.rows(0, half), second = share.rows(half, share.rows());
    {
      const auto local = fsdp.no_sync();
      fsdp.backward(loss_of_share(fsdp, first), 0.25 / ranks);
      loss_of_share(fsdp, second).backward();  // 1 / ranks
    }
    fsdp.backward(loss_of_share(fsdp, second), 0.5 / ranks);
    loss_of_share(fsdp, first).backward();  // adds 1 / ranks
    for (int r = 0; r < all.size(); ++r) {
      const Batch whole = batch.share(r, all.size());
      loss_of_share(alone, whole.rows(0, half)).backward(1.25 / ranks);
      loss_of_share(alone, whole.rows(half, whole.rows())).backward(1.5 / ranks);
    }
    expect_same_descent(fsdp, alone, 1e-13, to_string(mesh.dims()));
  });
}

TEST_P(HybridShard, TheParametersOnWhichALossDependsMayDifferBetweenRanks) {
  const Batch batch = make_batch(48, 0.3);
  on_meshes(GetParam(), [&](DeviceMesh& mesh, ProcessGroup& all) {
    const int ranks = all.size();
    const auto model = std::make_shared<TwoOutputs>(6);
    TwoOutputs alone(6);
    FullyShardedDataParallel fsdp(model, mesh.group("fsdp"), with_replicas(mesh));
    for (int s = 0; s < 3; ++s) {  // the last rank's first, then those of every second rank
      const auto is_early = [&](int rank) {
        return s == 0 ? rank == ranks - 1 : rank % 2 == s % 2;
      };
      model->early = is_early(all.rank());
      fsdp.zero_grad();
      loss_of_share(fsdp, share_of_all(batch, all)).backward();
      alone.zero_grad();
      for (int r = 0; r < ranks; ++r) {
        alone.early = is_early(r);
        loss_of_share(alone, batch.share(r, ranks)).backward(1.0 / ranks);
      }
      expect_same_descent(fsdp, alone, 1e-12, to_string(mesh.dims()));
    }
  });
}

TEST_P(HybridShard, ValuesAndBuffersAreTheFirstReplicas) {
  on_meshes(GetParam(), [&](DeviceMesh& mesh, ProcessGroup& all) {
    const auto model = std::make_shared<test::Mlp>(0.5 + all.rank());
    FullyShardedDataParallel fsdp(model, mesh.group("fsdp"), with_replicas(mesh));
    const test::Mlp first(0.5);
    expect_equal(fsdp, first, 0.0, to_string(mesh.dims()));
    EXPECT_EQ(max_difference(model->statistics, first.statistics), 0.0);
    model->statistics.fill(all.rank() + 1.0);
    fsdp.broadcast_buffers();
    EXPECT_EQ(model->statistics.to(Device{}).to_vector<double>(), std::vector<double>(2, 1.0));
  });
}

TEST_P(HybridShard, Bf16IsGatheredAndSummedWhileShardsStayInF32) {
  for (const std::optional<DType> reduce : {std::optional<DType>(), std::optional(DType::f32)}) {
    const auto round = [](const nn::Module& model) {
      for (const Variable& p : model.parameters())
        p.data().copy_from(p.data().to(DType::bf16).to(DType::f32));
    };
    Stack alone(0.5, 3, DType::f32);
    round(alone);
    alone.to(DType::bf16);
    optim::SGD reference(alone.named_parameters(), {.lr = 0.1, .momentum = 0.5});
    for (int s = 0; s < 3; ++s) train(alone, reference, make_batch(16, 0.1 * s, DType::bf16));
    on_meshes(GetParam(), [&](DeviceMesh& mesh, ProcessGroup& all) {
      const auto model = std::make_shared<Stack>(0.5, 3, DType::f32);
      round(*model);
      FullyShardedDataParallel fsdp(
          model, mesh.group("fsdp"),
          with_replicas(mesh, {.param_dtype = DType::bf16, .reduce_dtype = reduce}));
      optim::SGD sgd(fsdp.named_parameters(), {.lr = 0.1, .momentum = 0.5});
      for (int s = 0; s < 3; ++s) {
        backward(fsdp, make_batch(16, 0.1 * s, DType::bf16), all);
        sgd.step();
      }
      expect_equal(fsdp, alone, 0.02, to_string(mesh.dims()));
      EXPECT_TRUE(test::same_on_all_ranks(*mesh.group("dp"), bits_of_pieces(fsdp)));
    });
  }
}

TEST_P(HybridShard, AStepWithANonFiniteGradientOnOneRankIsSkippedByAll) {
  const Batch batch = make_batch(48, 0.3, DType::f32);
  on_meshes(GetParam(), [&](DeviceMesh& mesh, ProcessGroup& all) {
    FullyShardedDataParallel fsdp(std::make_shared<test::Mlp>(1.0, 40, DType::f32),
                                  mesh.group("fsdp"), with_replicas(mesh));
    optim::SGD sgd(fsdp.named_parameters(), {.lr = 0.1});
    optim::GradScaler scaler({.init_scale = 8.0}, test::asked_for_device());
    for (const bool breaks : {true, false}) {
      const std::string before = bits_of_pieces(fsdp);
      const double scale = scaler.scale();
      fsdp.zero_grad();
      fsdp.backward(loss_of_share(fsdp, share_of_all(batch, all)), 1.0 / all.size(),
                    scaler.scale_tensor());
      if (breaks && all.rank() == all.size() - 1) {
        for (const auto& [name, piece] : fsdp.named_parameters()) {
          if (piece.grad().defined()) piece.grad().fill(std::nan(""));
        }
      }
      fsdp.agree_on_found_inf();
      static_cast<void>(scaler.step(sgd));
      scaler.update();
      EXPECT_EQ(scaler.scale(), breaks ? scale / 2 : scale);
      EXPECT_EQ(bits_of_pieces(fsdp) == before, breaks);
    }
  });
}

TEST_P(HybridShard, DifferencesBetweenReplicasAreRefusedOnAllRanks) {
  on_meshes(GetParam(), [&](DeviceMesh& mesh, ProcessGroup& all) {
    const auto refusal = [&](std::int64_t hidden, FullyShardOptions options) {
      return message_of<Error>([&] {
        FullyShardedDataParallel(std::make_shared<test::Mlp>(1.0, hidden, DType::f32),
                                 mesh.group("fsdp"), with_replicas(mesh, std::move(options)));
      });
    };
    const bool is_last = all.rank() == all.size() - 1;
    const bool in_last_group = mesh.local_rank("dp") == mesh.size("dp") - 1;
    for (const bool differs : {is_last, in_last_group}) {
      EXPECT_NE(refusal(differs ? 7 : 5, {}).find("different models"), std::string::npos);
      EXPECT_NE(refusal(5, {.reshard_after_forward = differs}).find("reshard_after_forward = true"),
                std::string::npos);
    }
    const std::string unit = refusal(5, {.units = {"layers.*"}});
    EXPECT_NE(unit.find("'layers.*' fits no module"), std::string::npos) << unit;
  });
  test::on_ranks(GetParam(), [&](const auto& group) {
    if (group->size() != 4) return;
    // Ranks 0 and 3, and 1 and 2, are of different ranks in their sharded groups {0, 1} and {2, 3}.
    const auto sharded = group->split(group->rank() / 2, group->rank());
    const auto replicas = group->split(group->rank() % 3 == 0 ? 0 : 1, group->rank());
    const std::string refused = message_of<Error>([&] {
      FullyShardedDataParallel(std::make_shared<Stack>(), sharded, {.replicate = replicas});
    });
    EXPECT_NE(refused.find("Give the ranks with the same rank in their sharded groups"),
              std::string::npos)
        << refused;
    replicas->close();
    sharded->close();
  });
}

void expect_same(const StateDict& a, const StateDict& b) {
  ASSERT_EQ(a.size(), b.size());
  for (const auto& [name, tensor, placement] : a)
    EXPECT_EQ(max_difference(tensor, b.at(name)), 0.0) << name;
}

/// A model under training, with the optimizer's state.
struct Training {
  Training(double seed, const std::shared_ptr<ProcessGroup>& group,
           const FullyShardOptions& options)
      : fsdp(std::make_shared<Stack>(seed), group, options),
        optimizer(fsdp.named_parameters(), {.lr = 0.01}) {
    optimizer.take_placements(fsdp.state_dict());
  }
  [[nodiscard]] CheckpointContents contents() {
    CheckpointContents all;
    all.model = fsdp.state_dict();
    all.optimizer = optimizer.state_dict();
    return all;
  }
  void load(ProcessGroup& group, const std::filesystem::path& path) {
    const CheckpointContents own = contents();
    const CheckpointContents read = load_checkpoint(group, path, own.model, own.optimizer);
    fsdp.load_state_dict(read.model);
    optimizer.load_state_dict(read.optimizer);
  }
  FullyShardedDataParallel fsdp;
  optim::AdamW optimizer;
};

TEST_P(HybridShard, CheckpointsAreThoseOfAnyOtherSharding) {
  on_meshes(GetParam(), [&](DeviceMesh& mesh, ProcessGroup& all) {
    const auto name =
        "lockstep_hybrid_" + std::to_string(getpid()) + "_" + std::to_string(all.size()) + ".h5";
    const auto path = std::filesystem::temp_directory_path() / broadcast_object(all, name, 0);
    const auto whole = mesh.group();
    Training hybrid(0.5, mesh.group("fsdp"), with_replicas(mesh));
    for (int s = 0; s < 2; ++s) {
      backward(hybrid.fsdp, make_batch(13, 0.1 * s), all);
      hybrid.optimizer.step();
    }
    CheckpointWriter().save(all, path, hybrid.contents());
    const CheckpointContents written = load_checkpoint(path);

    Training flat(0.9, whole, {.units = {"h.1"}});  // over all ranks
    flat.load(all, path);
    all.barrier();
    CheckpointWriter().save(all, path, flat.contents());
    const CheckpointContents again = load_checkpoint(path);
    expect_same(again.model, written.model);
    expect_same(again.optimizer, written.optimizer);

    Training back(0.9, mesh.group("fsdp"), with_replicas(mesh));
    back.load(all, path);
    expect_same(back.contents().model, hybrid.contents().model);
    expect_same(back.contents().optimizer, hybrid.contents().optimizer);
    Stack alone(0.9);
    alone.load_state_dict(written.model);
    expect_equal(back.fsdp, alone, 0.0, to_string(mesh.dims()));
    all.barrier();
    if (all.rank() == 0) std::filesystem::remove(path);
  });
}

}  // namespace
}  // namespace lockstep
