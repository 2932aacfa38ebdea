// Attention, embedding and transformer layers and the encoder classifier: PyTorch's names, begin
// and results. The numbers come from PyTorch 2.15 in double, for parameters that are sines.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include <support/larger.hpp>
#include <support/message_of.hpp>

#include <lockstep/autograd/check_gradients.hpp>
#include <lockstep/autograd/functional.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/nn/dtype_guard.hpp>
#include <lockstep/nn/init.hpp>
#include <lockstep/nn/layers/attention.hpp>
#include <lockstep/nn/layers/embedding.hpp>
#include <lockstep/nn/models/transformer.hpp>
#include <lockstep/nn/random.hpp>

namespace lockstep::nn {
namespace {

/// factor * f(step i + shift) for the i-th element.
Tensor wave(const Shape& shape, double factor, double (*f)(double), double step, double shift) {
  std::vector<double> elements;
  for (std::int64_t i = 0; i < shape.numel(); ++i) {
    elements.push_back(factor * f(step * static_cast<double>(i) + shift));
  }
  return Tensor::from(elements, shape);
}

void set_to_sines(Module& model) {
  double k = 0;
  for (const auto& p : model.named_parameters()) {
    p.variable.data().copy_from(wave(p.variable.shape(), 0.3, std::sin, 0.7, k++));
  }
}

Variable cosines(const Shape& shape) { return Variable(wave(shape, 1.0, std::cos, 0.3, 0)); }

void expect_numbers(const Tensor& y, const std::vector<double>& expected) {
  const auto numbers = y.to_vector<double>();
  ASSERT_EQ(numbers.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(numbers[i], expected[i], 1e-12);
}

double norm(const Tensor& x) {
  double squares = 0;
  for (const double value : x.to_vector<double>()) squares += value * value;
  return std::sqrt(squares);
}

std::vector<std::string> names_and_shapes(const Module& model) {
  std::vector<std::string> names;
  for (const auto& p : model.named_parameters())
    names.push_back(p.name + to_string(p.variable.shape()));
  return names;
}

TEST(MultiheadAttention, AgreesWithPyTorch) {
  const DTypeGuard double_precision(DType::f64);
  MultiheadAttention attention(6, 3);
  EXPECT_EQ(names_and_shapes(attention),
            (std::vector<std::string>{"in_proj_weight[18, 6]", "in_proj_bias[18]",
                                      "out_proj.weight[6, 6]", "out_proj.bias[6]"}));
  set_to_sines(attention);
  expect_numbers(attention(cosines({1, 3, 6})).data(),
                 {0.139230257955507, -0.399897086573804, -0.14612187044422, -0.173442432558171,
                  -0.381009746604531, 0.197156579258853, 0.108482117744933, -0.371962300099067,
                  -0.14276439295581, -0.20466929837511, -0.353748606326324, 0.201653307028837,
                  0.066108011938974, -0.327713355244396, -0.143777335245671, -0.247925031391784,
                  -0.310322481643565, 0.202328784936286});
  AttentionOptions causal;
  causal.causal = true;
  MultiheadAttention backwards_only(6, 3, causal);
  set_to_sines(backwards_only);
  expect_numbers(backwards_only(cosines({1, 3, 6})).data(),
                 {0.263568666060781, -0.389833533410173, -0.280327810228709, -0.0519141571867135,
                  -0.3659649110195, 0.0608765169856897, 0.120262150580558, -0.407500779724109,
                  -0.119698177371089, -0.191747742345642, -0.389484687255059, 0.223771751774607,
                  0.066108011938974, -0.327713355244396, -0.143777335245671, -0.247925031391784,
                  -0.310322481643565, 0.202328784936286});
}

TEST(MultiheadAttention, BeginsAsPyTorchs) {
  manual_seed(1);
  MultiheadAttention attention(64, 4);
  const StateDict state = attention.state_dict();
  const double bound = std::sqrt(6.0 / (4 * 64));
  double largest = 0;
  for (const float value : state.at("in_proj_weight").to_vector<float>()) {
    largest = test::larger(largest, std::abs(static_cast<double>(value)));
  }
  EXPECT_LE(largest, bound);
  EXPECT_GT(largest, 0.99 * bound);
  EXPECT_EQ(state.at("in_proj_bias").to_vector<float>(), std::vector<float>(192, 0.0F));
  EXPECT_EQ(state.at("out_proj.bias").to_vector<float>(), std::vector<float>(64, 0.0F));
}

TEST(MultiheadAttention, NamesHeadsThatDoNotDivideTheWidth) {
  const auto message =
      test::message_of<InputError>([] { const MultiheadAttention attention(10, 3); });
  EXPECT_NE(message.find("num_heads (3)"), std::string::npos) << message;
  EXPECT_NE(message.find("embed_dim (10)"), std::string::npos) << message;
}

TEST(Embedding, BeginsNormalWithAZeroPaddingRow) {
  manual_seed(1);
  Embedding embedding(1000, 20, 7);
  const auto weight = embedding.state_dict().at("weight").to_vector<float>();
  double squares = 0;
  for (const float value : weight) squares += static_cast<double>(value) * value;
  EXPECT_NEAR(squares / static_cast<double>(weight.size()), 1.0, 0.03);  // 3 standard deviations
  const Variable index(Tensor::full({2, 3}, 7, DType::i64));
  const Variable y = embedding(index);
  EXPECT_EQ(y.shape(), (Shape{2, 3, 20}));
  EXPECT_EQ(y.data().to_vector<float>(), std::vector<float>(120, 0.0F));
  EXPECT_NE(test::message_of<InputError>([] { const Embedding bad(5, 2, 5); }).find("padding_idx"),
            std::string::npos);
}

TEST(Transformer, AgreesWithPyTorch) {
  const DTypeGuard double_precision(DType::f64);
  const auto model = transformer(
      {2, 4, 4}, 3, {.width = 8, .depth = 2, .heads = 2, .feedforward = 12, .patch = {2}});
  set_to_sines(*model);
  const Variable y = (*model)(cosines({2, 2, 4, 4}));
  expect_numbers(y.data(), {-1.32996833164714, -1.08727602402262, -0.92034700959319,
                            -1.32802137840076, -1.08829016736619, -0.92078315561309});
  nll_loss(y, Tensor::from(std::vector<std::int64_t>{2, 0}, {2})).backward();
  const std::vector<std::pair<std::string, double>> norms{
      {"pos_embedding", 0.00614211159162285},
      {"patch_embed.weight", 0.0308379852475258},
      {"encoder.layers.0.self_attn.in_proj_weight", 0.00172263544722087},
      {"encoder.layers.1.linear1.bias", 0.00229119610155909}};
  for (const auto& [name, expected] : norms) {
    for (const auto& p : model->named_parameters()) {
      if (p.name != name) continue;
      EXPECT_NEAR(norm(p.variable.grad()), expected, 1e-14) << name;
    }
  }
}

TEST(Transformer, ParametersAreThoseOfPyTorchsEncoder) {
  const auto model = transformer({1, 28, 28}, 10, {});
  EXPECT_EQ(model->parameter_count(), 2684170);
  const auto names = names_and_shapes(*model);
  const std::vector<std::string> first{"pos_embedding[1, 49, 192]",
                                       "patch_embed.weight[192, 1, 4, 4]",
                                       "patch_embed.bias[192]",
                                       "encoder.layers.0.self_attn.in_proj_weight[576, 192]",
                                       "encoder.layers.0.self_attn.in_proj_bias[576]",
                                       "encoder.layers.0.self_attn.out_proj.weight[192, 192]",
                                       "encoder.layers.0.self_attn.out_proj.bias[192]",
                                       "encoder.layers.0.linear1.weight[768, 192]",
                                       "encoder.layers.0.linear1.bias[768]",
                                       "encoder.layers.0.linear2.weight[192, 768]",
                                       "encoder.layers.0.linear2.bias[192]",
                                       "encoder.layers.0.norm1.weight[192]",
                                       "encoder.layers.0.norm1.bias[192]",
                                       "encoder.layers.0.norm2.weight[192]",
                                       "encoder.layers.0.norm2.bias[192]"};
  ASSERT_EQ(names.size(), 3 + 6 * 12 + 4);
  EXPECT_EQ(std::vector<std::string>(names.begin(), names.begin() + 15), first);
  const std::vector<std::string> last{"encoder.norm.weight[192]", "encoder.norm.bias[192]",
                                      "head.weight[10, 192]", "head.bias[10]"};
  EXPECT_EQ(std::vector<std::string>(names.end() - 4, names.end()), last);
}

TEST(Transformer, GradientsAgreeWithDifferencesAlsoWithDropout) {
  const DTypeGuard double_precision(DType::f64);
  manual_seed(3);
  for (const double dropout : {0.0, 0.3}) {
    const auto model =
        transformer({1, 6, 4}, 3,
                    {.width = 6, .depth = 2, .heads = 3, .patch = {2}, .encoder_dropout = dropout});
    const Variable x = cosines({2, 1, 6, 4});
    const Tensor target = Tensor::from(std::vector<std::int64_t>{2, 0}, {2});
    std::vector<std::pair<std::string, Variable>> parameters;
    for (const auto& p : model->named_parameters()) parameters.emplace_back(p.name, p.variable);
    const auto loss = [&] {
      const RandomContextGuard same_masks({.seed = 3});
      return nll_loss((*model)(x), target);
    };
    for (const auto& check : check_gradients(loss, parameters)) {
      EXPECT_TRUE(check.ok()) << check.name << ": " << check.gradient << " but " << check.difference
                              << " at " << check.where;
    }
  }
}

TEST(Transformer, DropoutActsInTrainingOnly) {
  manual_seed(3);
  const auto model = transformer(
      {1, 4, 4}, 3, {.width = 8, .depth = 1, .heads = 2, .patch = {2}, .encoder_dropout = 0.5});
  const Variable x(uniform({2, 1, 4, 4}, 1.0));
  const auto training = (*model)(x).data().to_vector<float>();
  model->eval();
  const auto evaluation = (*model)(x).data().to_vector<float>();
  EXPECT_NE(training, evaluation);
  EXPECT_EQ((*model)(x).data().to_vector<float>(), evaluation);
}

std::shared_ptr<Module> child_of(const Module& model, const std::string& name) {
  for (const auto& [child_name, child] : model.children()) {
    if (child_name == name) return child;
  }
  ADD_FAILURE() << "no " << name;
  return nullptr;
}

Variable parameter_of(const Module& model, const std::string& name) {
  for (const auto& p : model.named_parameters()) {
    if (p.name == name) return p.variable;
  }
  ADD_FAILURE() << "no " << name;
  return {};
}

TEST(Transformer, OfASequenceHasATokenAStep) {
  const DTypeGuard double_precision(DType::f64);
  manual_seed(5);
  const auto model = transformer(
      {1, 5, 3}, 2, {.width = 4, .depth = 1, .heads = 2, .patch = {1, 0}}, Head::linear);
  EXPECT_EQ(parameter_of(*model, "pos_embedding").shape(), Shape({1, 5, 4}));
  const Variable x = cosines({2, 1, 5, 3});
  const Variable tokens =
      linear(reshape(x, {2, 5, 3}), reshape(parameter_of(*model, "patch_embed.weight"), {4, 3}),
             parameter_of(*model, "patch_embed.bias"));
  const Variable encoded =
      (*child_of(*model, "encoder"))(tokens + parameter_of(*model, "pos_embedding"));
  const Variable expected = (*child_of(*model, "head"))(mean(encoded, {1}));
  EXPECT_EQ((*model)(x).data().to_vector<double>(), expected.data().to_vector<double>());
}

TEST(Transformer, OfATablesRowHasATokenAFeature) {
  const DTypeGuard double_precision(DType::f64);
  manual_seed(6);
  const auto model = transformer({3}, 2, {.width = 4, .depth = 1, .heads = 2}, Head::linear);
  const Variable x = cosines({2, 3}), weight = parameter_of(*model, "feature_embed.weight");
  EXPECT_EQ(weight.shape(), Shape({3, 4}));
  const auto numbers = x.data().to_vector<double>(), weights = weight.data().to_vector<double>();
  std::vector<double> tokens;
  for (std::size_t n = 0; n < 2; ++n) {
    for (std::size_t f = 0; f < 3; ++f) {
      for (std::size_t e = 0; e < 4; ++e) tokens.push_back(numbers[3 * n + f] * weights[4 * f + e]);
    }
  }
  const Variable encoded = (*child_of(*model, "encoder"))(
      Variable(Tensor::from(tokens, {2, 3, 4})) + parameter_of(*model, "pos_embedding"));
  const Variable expected = (*child_of(*model, "head"))(mean(encoded, {1}));
  EXPECT_EQ((*model)(x).data().to_vector<double>(), expected.data().to_vector<double>());
  sum((*model)(x)).backward();
  EXPECT_GT(norm(weight.grad()), 0.0);
}

TEST(Transformer, WithALinearHeadEndsInLogits) {
  manual_seed(3);
  const TransformerOptions small{.width = 8, .depth = 1, .heads = 2, .patch = {2}};
  const auto model = transformer({1, 4, 4}, 3, small, Head::linear);
  double total = 0;
  for (const float y : (*model)(Variable(uniform({1, 1, 4, 4}, 1.0))).data().to_vector<float>()) {
    total += std::exp(static_cast<double>(y));
  }
  EXPECT_GT(std::abs(total - 1.0), 0.01);
}

TEST(Transformer, NamesSizesThatDoNotFit) {
  const auto message = [](const Shape& image, const TransformerOptions& options) {
    return test::message_of<InputError>(
        [&] { static_cast<void>(transformer(image, 10, options)); });
  };
  const auto patch = message({1, 28, 30}, {});
  EXPECT_NE(patch.find("[1, 28, 30]"), std::string::npos) << patch;
  EXPECT_NE(patch.find("4 x 4"), std::string::npos) << patch;
  EXPECT_NE(message({2, 3}, {}).find("[2, 3]"), std::string::npos);
  EXPECT_NE(message({1, 4, 4}, {.patch = {}}).find("model.patch"), std::string::npos);
  const auto heads = message({1, 28, 28}, {.width = 10});
  EXPECT_NE(heads.find("model.heads (3)"), std::string::npos) << heads;
  EXPECT_NE(heads.find("model.width (10)"), std::string::npos) << heads;
  const auto model = transformer({1, 8, 8}, 10, {});
  EXPECT_THROW(static_cast<void>(model->forward(Variable(Tensor::zeros({2, 1, 8, 4})))),
               ShapeError);
}

}  // namespace
}  // namespace lockstep::nn
