// Checkpoints of models that ranks share out are those of the undivided model.
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <lockstep/checkpoint/reader.hpp>
#include <lockstep/checkpoint/save/writer.hpp>
#include <lockstep/nn/models/gpt.hpp>
#include <lockstep/parallel/tensor/plans.hpp>

#include "undivided.hpp"

namespace lockstep {
namespace {

class TensorParallelCheckpoint : public testing::TestWithParam<int> {};

constexpr nn::GptOptions options{
    .vocabulary = 13, .context = 6, .width = 20, .depth = 1, .heads = 5};

Variable loss_of_tokens(nn::Gpt& model, int step) {
  std::vector<std::int64_t> tokens;
  for (int i = 0; i < 12; ++i) tokens.push_back((i * i + step) % options.vocabulary);
  const Tensor t = Tensor::from(tokens, {2, 6}).to(test::asked_for_device());
  return model.loss(Variable(t), t);
}

/// A Gpt on the ranks of a group, or the undivided one, with its optimizer.
struct Training {
  explicit Training(const GroupPtr& group, int seed = 5) {
    const nn::DTypeGuard f64(DType::f64);
    nn::manual_seed(static_cast<std::uint64_t>(seed));
    model = std::make_shared<nn::Gpt>(options);
    if (group) parallelize_gpt(*model, group);
    optimizer = std::make_unique<optim::AdamW>(model->named_parameters());
    optimizer->take_placements(model->state_dict());
  }
  double step(int i) {
    optimizer->zero_grad();
    const Variable loss = loss_of_tokens(*model, i);
    loss.backward();
    optimizer->step();
    return loss.item();
  }
  void load(const CheckpointContents& contents) {
    model->load_state_dict(contents.model);
    optimizer->load_state_dict(contents.optimizer);
  }

  std::shared_ptr<nn::Gpt> model;
  std::unique_ptr<optim::AdamW> optimizer;
};

/// A file that all ranks of a group see, while this lives.
class SharedFile {
 public:
  explicit SharedFile(const GroupPtr& group) : group_(group) {
    const auto name =
        "lockstep_tensor_" + std::to_string(getpid()) + "_" + std::to_string(group->size()) + ".h5";
    path_ = std::filesystem::temp_directory_path() / broadcast_object(*group, name, 0);
  }
  ~SharedFile() {
    if (group_->rank() == 0) std::filesystem::remove(path_);
  }
  SharedFile(const SharedFile&) = delete;
  SharedFile& operator=(const SharedFile&) = delete;
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  GroupPtr group_;
  std::filesystem::path path_;
};

void expect_slabs(const StateDict& slabs, const StateDict& whole) {
  EXPECT_EQ(slabs.size(), whole.size());
  for (const auto& entry : slabs)
    EXPECT_EQ(test::max_difference(entry.tensor, test::part_of(whole.at(entry.name), entry)), 0.0)
        << entry.name;
}

TEST_P(TensorParallelCheckpoint, IsReadUndividedAndByAnyNumberOfRanks) {
  test::on_ranks(GetParam(), [&](const auto& group) {
    Training whole(nullptr), part(group);
    for (int i = 0; i < 2; ++i) {
      whole.step(i);
      part.step(i);
    }
    const SharedFile file(group);
    CheckpointContents contents;
    contents.model = part.model->state_dict();
    contents.optimizer = part.optimizer->state_dict();
    CheckpointWriter().save(*group, file.path(), contents);

    const CheckpointContents read = load_checkpoint(file.path());
    expect_slabs(contents.model, read.model);
    expect_slabs(contents.optimizer, read.optimizer);
    Training undivided(nullptr, 6);
    undivided.load(read);
    const double next = whole.step(2);
    EXPECT_NEAR(undivided.step(2), next, 1e-10);

    for (int readers = 1; readers <= group->size(); ++readers) {
      const auto some = group->split(group->rank() < readers ? 0 : -1, group->rank());
      if (group->rank() < readers) {
        Training other(some, 6);
        other.load(load_checkpoint(*some, file.path(), other.model->state_dict(),
                                   other.optimizer->state_dict()));
        expect_slabs(other.model->state_dict(), read.model);
        expect_slabs(other.optimizer->state_dict(), read.optimizer);
        EXPECT_NEAR(other.step(2), next, 1e-10);
        some->close();
      }
    }
    group->barrier();
  });
}

TEST_P(TensorParallelCheckpoint, OfTheUndividedModelIsReadByAnyNumberOfRanks) {
  test::on_ranks(GetParam(), [&](const auto& group) {
    Training whole(nullptr), part(group, 6);
    whole.step(0);
    const SharedFile file(group);
    CheckpointContents contents;
    contents.model = whole.model->state_dict();
    contents.optimizer = whole.optimizer->state_dict();
    CheckpointWriter().save(*group, file.path(), contents);
    part.load(load_checkpoint_in_place(*group, file.path(), part.model->state_dict(),
                                       part.optimizer->state_dict()));
    expect_slabs(part.model->state_dict(), whole.model->state_dict());
    expect_slabs(part.optimizer->state_dict(), whole.optimizer->state_dict());
    EXPECT_NEAR(part.step(1), whole.step(1), 1e-10);
    group->barrier();
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, TensorParallelCheckpoint, testing::ValuesIn(test::rank_counts()));

}  // namespace
}  // namespace lockstep
