// One module under two names, or one parameter in two modules: one parameter, as in PyTorch.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include <lockstep/nn/layers.hpp>

namespace lockstep::nn {
namespace {

/// An encoder that is its own decoder, with a buffer in it.
struct Tied : Module {
  std::shared_ptr<Linear> encoder = register_module("encoder", std::make_shared<Linear>(4, 4));
  std::shared_ptr<BatchNorm1d> norm = register_module("norm", std::make_shared<BatchNorm1d>(4));
  std::shared_ptr<Linear> decoder = register_module("decoder", encoder);
  std::shared_ptr<BatchNorm1d> again = register_module("norm_again", norm);
  Variable forward(const Variable& x) override {
    return decoder->forward(norm->forward(encoder->forward(x)));
  }
};

TEST(TiedModules, ListEachParameterOnceUnderItsFirstName) {
  const Tied model;
  std::vector<std::string> names;
  for (const auto& p : model.named_parameters()) names.push_back(p.name);
  EXPECT_EQ(names, (std::vector<std::string>{"encoder.weight", "encoder.bias", "norm.weight",
                                             "norm.bias"}));
  EXPECT_EQ(model.parameters().size(), 4U);
  EXPECT_EQ(model.parameter_count(), 4 * 4 + 4 + 4 + 4);
  std::vector<std::string> buffers;
  for (const auto& [name, buffer] : model.named_buffers()) buffers.push_back(name);
  EXPECT_EQ(buffers, (std::vector<std::string>{"norm.running_mean", "norm.running_var",
                                               "norm.num_batches_tracked"}));
}

TEST(TiedModules, HaveBothNamesInTheStateDictAndLoadThem) {
  const Tied model;
  Tied other;
  const StateDict state = model.state_dict();
  ASSERT_TRUE(state.find("encoder.weight"));
  ASSERT_TRUE(state.find("decoder.weight"));
  EXPECT_EQ(state.at("encoder.weight").data(), state.at("decoder.weight").data());
  EXPECT_EQ(state.at("norm.running_var").data(), state.at("norm_again.running_var").data());
  other.load_state_dict(state);
  EXPECT_EQ(other.encoder->parameters()[0].data().to_vector<float>(),
            model.encoder->parameters()[0].data().to_vector<float>());
}

}  // namespace
}  // namespace lockstep::nn
