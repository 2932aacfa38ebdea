#include <gtest/gtest.h>

#include <array>
#include <string>

#include <lockstep/autograd/functional.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/nn/models/mlp.hpp>
#include <lockstep/nn/name_pattern.hpp>

namespace lockstep {
namespace {

using nn::fits_pattern;

TEST(FitsPattern, StarIsAnyCharactersAndQuestionMarkIsOne) {
  for (const char* pattern : {"*", "conv1.bias", "*.bias", "conv?.bias", "conv*", "*v1*i*s", "**",
                              "conv1.bias*", "*conv1.bias", "??????????"}) {
    EXPECT_TRUE(fits_pattern(pattern, "conv1.bias")) << pattern;
  }
  for (const char* pattern : {"", "bias", "conv1", "*.weight", "conv??.bias", "conv1.bias?",
                              "*.bias.*", "Conv1.bias", "?????????"}) {
    EXPECT_FALSE(fits_pattern(pattern, "conv1.bias")) << pattern;
  }
  EXPECT_TRUE(fits_pattern("", ""));
  EXPECT_TRUE(fits_pattern("*", ""));
  EXPECT_FALSE(fits_pattern("?", ""));
  EXPECT_TRUE(fits_pattern("*.layer.*.bias", "a.layer.layer.bias"));
}

TEST(FitsPattern, ManyStarsAreQuick) {
  // Without giving up the earlier stars this would take longer than the universe has.
  EXPECT_FALSE(fits_pattern("*a*a*a*a*a*a*a*a*a*a*a*a*b", std::string(200, 'a')));
}

std::shared_ptr<nn::Module> small_model() { return nn::mlp({4}, 3, {5, 6}); }

TEST(Freeze, MatchingParametersGetNoGradientAndAreNotTrained) {
  const auto model = small_model();
  const auto all = model->named_parameters();
  ASSERT_EQ(all.size(), 6U);
  const std::array<std::string, 1> patterns{all[0].name.substr(0, all[0].name.find('.')) + ".*"};
  nn::freeze(*model, patterns);
  const auto trained = model->trained_parameters();
  ASSERT_EQ(trained.size(), 4U);
  EXPECT_EQ(trained[0].name, all[2].name);
  mean((*model)(Variable(Tensor::full({2, 4}, 1.0)))).backward();
  EXPECT_FALSE(all[0].variable.grad().defined());
  EXPECT_TRUE(all[2].variable.grad().defined());
}

TEST(Freeze, APatternWithoutMatchNamesTheNearest) {
  const auto model = small_model();
  const std::array<std::string, 1> patterns{model->named_parameters()[0].name + "s"};
  try {
    nn::freeze(*model, patterns);
    FAIL();
  } catch (const InputError& error) {
    EXPECT_NE(std::string(error.what()).find("Did you mean"), std::string::npos) << error.what();
  }
}

TEST(Freeze, AllOfAModelIsRefused) {
  const std::array<std::string, 1> everything{"*"};
  EXPECT_THROW(nn::freeze(*small_model(), everything), InputError);
}

}  // namespace
}  // namespace lockstep
