// A checkpoint of a model with tied parameters holds each of their names, and a run resumed from it
// ends with the bits of one that was not interrupted.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <lockstep/autograd/functional.hpp>
#include <lockstep/checkpoint/reader.hpp>
#include <lockstep/checkpoint/save/writer.hpp>
#include <lockstep/comm/threads_group.hpp>
#include <lockstep/nn/layers.hpp>
#include <lockstep/nn/random.hpp>
#include <lockstep/optim/adam.hpp>

namespace lockstep {
namespace {

struct Tied : nn::Module {
  std::shared_ptr<nn::Linear> encoder =
      register_module("encoder", std::make_shared<nn::Linear>(6, 6));
  std::shared_ptr<nn::Linear> decoder = register_module("decoder", encoder);
  Variable forward(const Variable& x) override {
    return decoder->forward(tanh(encoder->forward(x)));
  }
};

struct Training {
  Tied model;
  optim::AdamW optimizer{model.named_parameters(), {.lr = 0.05}};

  void train(int steps) {
    std::vector<float> numbers(24);
    for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<float>(i % 7) / 7.0F;
    const Tensor x = Tensor::from(numbers, {4, 6});
    for (int step = 0; step < steps; ++step) {
      optimizer.zero_grad();
      mse_loss(model(Variable(x)), x).backward();
      optimizer.step();
    }
  }
  [[nodiscard]] std::vector<float> weight() const {
    return model.parameters()[0].data().to_vector<float>();
  }
};

TEST(TiedModel, ResumedFromItsCheckpointHasTheBitsOfOneRun) {
  nn::manual_seed(3);
  Training whole;
  nn::manual_seed(3);
  Training first;
  whole.train(6);
  first.train(3);
  const auto path = std::filesystem::path(testing::TempDir()) /
                    ("lockstep-tied-" + std::to_string(::getpid()) + ".h5");
  run_ranks_as_threads(1, [&](ProcessGroup& group) {
    CheckpointWriter().save(group, path,
                            {.model = first.model.state_dict(),
                             .optimizer = first.optimizer.state_dict(),
                             .train = {},
                             .deck = "",
                             .metadata = {}});
  });
  const CheckpointContents saved = load_checkpoint(path);
  std::filesystem::remove(path);
  EXPECT_EQ(saved.model.at("encoder.weight").to_vector<float>(), first.weight());
  EXPECT_EQ(saved.model.at("decoder.weight").to_vector<float>(), first.weight());

  nn::manual_seed(4);
  Training resumed;
  resumed.model.load_state_dict(saved.model);
  resumed.optimizer.load_state_dict(saved.optimizer);
  resumed.train(3);
  EXPECT_EQ(resumed.weight(), whole.weight());
  EXPECT_NE(resumed.weight(), first.weight());
}

}  // namespace
}  // namespace lockstep
