// A checkpoint of a pipeline holds the undivided model's tensors: any number of stages, any
// schedule, and any other way to share out the model read it, and it reads theirs.
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <support/mentions.hpp>
#include <support/message_of.hpp>

#include <lockstep/base/error.hpp>
#include <lockstep/checkpoint/reader.hpp>
#include <lockstep/checkpoint/save/writer.hpp>
#include <lockstep/parallel/mesh/device_mesh.hpp>
#include <lockstep/parallel/sharded/fully_shard.hpp>

#include "deck_models.hpp"

namespace lockstep {
namespace {

using test::DeckModel;
using test::PipelineTraining;

class PipelineCheckpoint : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, PipelineCheckpoint, testing::ValuesIn(test::rank_counts()),
                         testing::PrintToStringParamName());

std::vector<DeckModel> models_to_save() { return {test::deck_gpt(), test::deck_mlp()}; }

std::filesystem::path file_for(int ranks) {
  return test::file_of_all_ranks("pipeline_" + std::to_string(ranks));
}

std::vector<double> values_of(const Tensor& t) { return t.to(DType::f64).to_vector<double>(); }

/// The part of a whole tensor that a rank lists: nothing, all of it, or rows or columns.
void expect_part(const StateDict::Entry& part, const Tensor& whole, const std::string& what) {
  if (part.tensor.numel() == 0) return;
  if (part.tensor.numel() == whole.numel()) {
    EXPECT_EQ(values_of(part.tensor), values_of(whole)) << what << ", " << part.name;
    return;
  }
  ASSERT_EQ(part.placement.global, whole.shape()) << part.name;
  Variable cut(whole.reshape(part.placement.by_parts(whole.shape())));
  const Shape sizes = part.placement.by_parts(part.tensor.shape()),
              offsets = part.placement.rectangle_offsets();
  for (int d = 0; d < sizes.dims(); ++d) cut = narrow(cut, d, offsets[d], sizes[d]);
  EXPECT_EQ(values_of(part.tensor), values_of(cut.data())) << what << ", " << part.name;
}

void expect_parts(const StateDict& parts, const StateDict& whole, const std::string& what) {
  EXPECT_EQ(parts.size(), whole.size()) << what;
  for (const auto& entry : parts) {
    ASSERT_NE(whole.find(entry.name), nullptr) << what << " has no " << entry.name;
    expect_part(entry, whole.at(entry.name), what);
  }
}

/// The undivided model and its optimizer.
struct Undivided {
  explicit Undivided(const DeckModel& the, std::uint64_t seed = 7)
      : model(the.made(seed)), optimizer(model->named_parameters()) {}
  void step(const DeckModel& the) {
    optimizer.zero_grad();
    test::loss_of(*model, the.input, the.target).backward();
    optimizer.step();
  }
  std::shared_ptr<nn::Module> model;
  optim::AdamW optimizer;
};

CheckpointContents contents_of(const PipelineTraining& training) {
  CheckpointContents contents;
  contents.model = training.pipeline->state_dict();
  contents.optimizer = training.optimizer_state();
  return contents;
}

void load(PipelineTraining& training, const CheckpointContents& contents) {
  training.pipeline->load_state_dict(contents.model);
  training.optimizer->load_state_dict(training.slots->own_of(contents.optimizer));
}

std::vector<PipelineSchedule> schedules_to_save(int ranks) {
  return {one_f_one_b(ranks, 3), interleaved_1f1b(ranks, 2, 3), zero_bubble_h1(ranks, 3)};
}

TEST_P(PipelineCheckpoint, IsReadUndividedAndByAnyOtherStagesAndSchedule) {
  const auto path = file_for(GetParam());
  test::on_ranks(GetParam(), [&](const auto& group) {
    for (const DeckModel& the : models_to_save()) {
      for (const auto& schedule : schedules_to_save(group->size())) {
        const std::string what = the.name + ", " + schedule.name;
        PipelineTraining training(the, group, schedule);
        training.step(the);
        training.step(the);
        const CheckpointContents contents = contents_of(training);
        CheckpointWriter().save(*group, path, contents);

        const CheckpointContents whole = load_checkpoint(path);
        expect_parts(contents.model, whole.model, what);
        expect_parts(contents.optimizer, whole.optimizer, what);
        Undivided alone(the, 8);
        alone.model->load_state_dict(whole.model);  // with its names, no more and no less
        alone.optimizer.load_state_dict(whole.optimizer);

        // Fewer ranks, with another schedule, from parts; and all ranks from whole tensors.
        const int readers = (group->size() + 1) / 2;
        const auto few = group->split(group->rank() < readers ? 0 : -1, group->rank());
        if (group->rank() < readers) {
          PipelineTraining other(the, few, interleaved_1f1b(readers, 2, 3), 9);
          load(other,
               load_checkpoint(*few, path, other.pipeline->state_dict(), other.optimizer_state()));
          expect_parts(other.pipeline->state_dict(), whole.model, what + ", fewer");
          expect_parts(other.optimizer_state(), whole.optimizer, what + ", fewer");
        }
        few->close();
        PipelineTraining again(the, group, schedule, 9);
        load(again, whole);
        expect_parts(again.pipeline->state_dict(), whole.model, what + ", again");
        EXPECT_EQ(again.step(the), training.step(the)) << what;
        expect_parts(
            again.pipeline->state_dict(),
            [&] {
              CheckpointWriter().save(*group, path, contents_of(training));
              return load_checkpoint(path).model;
            }(),
            what + ", a step later");
        group->barrier();
      }
    }
  });
  std::filesystem::remove(path);
}

TEST_P(PipelineCheckpoint, OfTheUndividedModelAndOfShardsIsReadByStages) {
  const auto path = file_for(GetParam());
  test::on_ranks(GetParam(), [&](const auto& group) {
    for (const DeckModel& the : models_to_save()) {
      const auto schedule = one_f_one_b(group->size(), 3);
      Undivided alone(the);
      alone.step(the);
      CheckpointContents contents;
      contents.model = alone.model->state_dict();
      contents.optimizer = alone.optimizer.state_dict();
      CheckpointWriter().save(*group, path, contents);
      PipelineTraining training(the, group, schedule, 9);
      // In place: the returned tensors are the stages' own.
      static_cast<void>(load_checkpoint_in_place(*group, path, training.pipeline->state_dict(),
                                                 training.optimizer_state()));
      if (test::asked_for_device() == Device{}) {
        expect_parts(training.pipeline->state_dict(), contents.model, the.name + " in place");
        expect_parts(training.optimizer_state(), contents.optimizer, the.name + " in place");
      }

      // Shards read and write checkpoints of stages.
      FullyShardedDataParallel fsdp(the.made(10), group);
      optim::AdamW of_shards(fsdp.named_parameters());
      of_shards.take_placements(fsdp.state_dict());
      contents.model = fsdp.state_dict();
      contents.optimizer = of_shards.state_dict();
      CheckpointWriter().save(*group, path, contents);
      const CheckpointContents whole = load_checkpoint(path);
      load(training, load_checkpoint(*group, path, training.pipeline->state_dict(),
                                     training.optimizer_state()));
      expect_parts(training.pipeline->state_dict(), whole.model, the.name + " of shards");
      training.step(the);
      CheckpointWriter().save(*group, path, contents_of(training));
      fsdp.load_state_dict(
          load_checkpoint(*group, path, fsdp.state_dict(), of_shards.state_dict()).model);
      const CheckpointContents trained = load_checkpoint(path);
      expect_parts(fsdp.state_dict(), trained.model, the.name + " by shards");
      group->barrier();
    }
  });
  std::filesystem::remove(path);
}

TEST_P(PipelineCheckpoint, OfReplicasAndTensorParallelStagesHoldsWholeTensors) {
  const auto path = file_for(GetParam());
  test::on_ranks(GetParam(), [&](const auto& group) {
    for (int pp = 1; pp <= group->size(); ++pp) {
      const int others = group->size() / pp;
      if (group->size() % pp != 0 || others > 4) continue;
      for (const std::string other : {"dp", "tp"}) {
        DeviceMesh mesh(group, {{other, others}, {"pp", pp}});
        const DeckModel the = test::deck_gpt();
        const std::string what = to_string(mesh.dims());
        const auto tensor_group = other == "tp" ? mesh.group("tp") : nullptr;
        {
          PipelineTraining training(the, mesh.group("pp"), one_f_one_b(pp, 3), 7, tensor_group);
          training.step(the);
          const CheckpointContents contents = contents_of(training);
          CheckpointWriter().save(*group, path, contents);
          const CheckpointContents whole = load_checkpoint(path);
          expect_parts(contents.model, whole.model, what);
          expect_parts(contents.optimizer, whole.optimizer, what);
          Undivided alone(the);
          alone.step(the);
          for (const auto& [name, tensor, placement] : alone.model->state_dict()) {
            const auto expected = values_of(tensor), actual = values_of(whole.model.at(name));
            for (std::size_t i = 0; i < expected.size(); ++i)
              ASSERT_NEAR(actual[i], expected[i], 1e-10) << what << ", " << name;
          }
          PipelineTraining reader(the, mesh.group("pp"), one_f_one_b(pp, 3), 9, tensor_group);
          load(reader, load_checkpoint(*group, path, reader.pipeline->state_dict(),
                                       reader.optimizer_state()));
          expect_parts(reader.pipeline->state_dict(), whole.model, what + ", read");
          expect_parts(reader.optimizer_state(), whole.optimizer, what + ", read");
          group->barrier();
        }
        mesh.close();
      }
    }
  });
  std::filesystem::remove(path);
}

/// Stages with one name for different layers.
TEST_P(PipelineCheckpoint, NamesTheStagesWhereNamesAreNotTheirOwn) {
  test::on_ranks(GetParam(), [&](const auto& group) {
    const int n = group->size();
    Pipeline pipeline({std::make_shared<nn::Linear>(3, 3)}, group, gpipe(n, 1), test::mean_nll);
    const std::string own = n == 1 ? "" : "stage" + std::to_string(group->rank()) + ".";
    EXPECT_EQ(pipeline.named_parameters().front().name, own + "weight");
    const StateDict state = pipeline.state_dict();
    EXPECT_EQ(state.size(), 2U * static_cast<unsigned>(n));
    EXPECT_EQ(state.at(own + "weight").data(),
              pipeline.named_parameters().front().variable.data().data());
    pipeline.load_state_dict(state);
  });
}

TEST_P(PipelineCheckpoint, RefusesStatesThatDoNotFit) {
  test::on_ranks(GetParam(), [&](const auto& group) {
    const int n = group->size();
    Pipeline pipeline({std::make_shared<nn::Linear>(3, 3)}, group, gpipe(n, 1), test::mean_nll);
    const std::string stage = n == 1 ? "" : "stage" + std::to_string(n - 1) + ".";
    const auto refusal = [&](const StateDict& state) {
      return test::message_of<Error>([&] { pipeline.load_state_dict(state); });
    };
    StateDict fewer, more, others;
    for (const auto& [name, tensor, placement] : pipeline.state_dict()) {
      if (name != stage + "bias") fewer.insert(name, tensor, placement);
      more.insert(name, tensor, placement);
      others.insert(name, Tensor::zeros({2, 5}));
    }
    more.insert("fc.weight", Tensor::zeros({3}));
    EXPECT_TRUE(test::mentions(refusal(fewer), stage + "bias is missing"));
    EXPECT_TRUE(test::mentions(refusal(more), "fc.weight is in no stage"));
    EXPECT_TRUE(test::mentions(refusal(others), "where the stage has"));

    StateDict mine;
    mine.insert("option", Tensor::zeros({group->rank() == n - 1 ? 2 : 3}));
    if (n > 1) {
      EXPECT_TRUE(test::mentions(test::message_of<Error>([&] { PipelineState(*group, mine); }),
                                 "one name is one tensor"));
    }
    StateDict none;
    const PipelineState empty(*group, none);
    EXPECT_TRUE(test::mentions(
        test::message_of<Error>([&] { static_cast<void>(empty.of_all(mine)); }), "Make another"));
    const auto layer = std::make_shared<nn::Linear>(3, 3);
    const auto alone = group->split(group->rank(), 0);
    const FullyShardedDataParallel fsdp(layer, alone);
    const Pipeline of_shards({layer}, group, gpipe(n, 1), test::mean_nll);
    EXPECT_TRUE(test::mentions(
        test::message_of<Error>([&] { static_cast<void>(of_shards.state_dict()); }), "sharded"));
    alone->close();
  });
}

}  // namespace
}  // namespace lockstep
