// Transformer decoders against PyTorch's (make_decoder.py), in f64, forward and backward.
#include <gtest/gtest.h>

#include <string>
#include <support/golden_file.hpp>
#include <support/message_of.hpp>
#include <utility>
#include <vector>

#include <lockstep/autograd/functional.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/nn/dtype_guard.hpp>
#include <lockstep/nn/layers.hpp>

namespace lockstep::nn {
namespace {

class Decoder : public testing::TestWithParam<std::string> {};

TEST_P(Decoder, GivesPyTorchsNumbersAndGradients) {
  const DTypeGuard precise(DType::f64);
  const test::GoldenFile file("decoder.h5");
  const std::string group = GetParam(), path = group + "/";
  TransformerDecoderOptions options;
  options.dim_feedforward = static_cast<std::int64_t>(file.number(group, "dim_feedforward"));
  options.dropout = 0.0;
  options.layer_norm_eps = file.number_or(group, "layer_norm_eps", options.layer_norm_eps);
  options.norm_first = file.number_or(group, "norm_first", 0) == 1;
  if (file.has_attribute(group, "activation"))
    options.activation = TransformerDecoderOptions::Activation::gelu;
  DecoderMasks masks;
  masks.tgt_is_causal = file.number(group, "causal") == 1;
  const auto mask = [&](const std::string& name) {
    return file.has(path + name) ? file.tensor(path + name).to(DType::boolean) : Tensor();
  };
  masks.tgt_key_padding_mask = mask("tgt_key_padding_mask");
  masks.memory_key_padding_mask = mask("memory_key_padding_mask");
  const Variable tgt(file.tensor(path + "tgt"), true), memory(file.tensor(path + "memory"), true);
  const std::int64_t width = tgt.shape()[2],
                     heads = static_cast<std::int64_t>(file.number(group, "nhead"));

  TransformerDecoderLayer layer(width, heads, options);
  const auto layers = static_cast<std::int64_t>(file.number_or(group, "num_layers", 1));
  TransformerDecoder decoder(layers, width, heads, options, file.number_or(group, "norm", 0) == 1);
  const bool whole = group.starts_with("decoder");
  Module& model = whole ? static_cast<Module&>(decoder) : layer;
  StateDict state;
  for (const auto& p : model.named_parameters()) state.insert(p.name, file.tensor(path + p.name));
  model.load_state_dict(state);

  const Variable out =
      whole ? decoder.forward(tgt, memory, masks) : layer.forward(tgt, memory, masks);
  const auto expect = [&](const std::string& name, const Tensor& found) {
    ASSERT_TRUE(found.defined()) << name;
    EXPECT_LE(test::max_difference(found, file.tensor(path + name)), 1e-11) << name;
  };
  expect("out", out.data());
  sum(out * Variable(file.tensor(path + "grad_out"))).backward();
  expect("grad_tgt", tgt.grad());
  expect("grad_memory", memory.grad());
  for (const auto& [name, parameter] : model.named_parameters())
    expect("grad_" + name, parameter.grad());
  EXPECT_EQ(file.unread(group), std::vector<std::string>());
}

INSTANTIATE_TEST_SUITE_P(Golden, Decoder,
                         testing::Values("layer.defaults", "layer.pre_norm_gelu_causal",
                                         "layer.masked", "decoder.post_norm", "decoder.pre_norm"),
                         [](const auto& test) {
                           std::string name = test.param;
                           name[name.find('.')] = '_';
                           return name;
                         });

TEST(TransformerDecoder, BeginsAsPyTorchsAndNeedsAMemory) {
  TransformerDecoder decoder(2, 8, 2);
  std::vector<std::string> names;
  for (const auto& [name, module] : decoder.children().front().second->children())
    for (const auto& [part, child] : module->children()) names.push_back(name + "." + part);
  EXPECT_EQ(names.size(), 22U);
  EXPECT_EQ(names.front(), "0.self_attn");
  EXPECT_EQ(names.back(), "1.dropout3");
  EXPECT_EQ(decoder.state_dict().at("layers.1.linear1.weight").shape(), (Shape{2048, 8}));
  EXPECT_EQ(decoder.state_dict().find("norm.weight"), nullptr);
  const Variable x(Tensor::zeros({1, 3, 8}));
  EXPECT_EQ(test::message_of<Error>([&] { static_cast<void>(decoder.forward(x)); }),
            "TransformerDecoder needs the encoder's output: call forward(tgt, memory)");
  EXPECT_EQ(decoder.forward(x, Variable(Tensor::zeros({1, 5, 8}))).shape(), x.shape());
  EXPECT_THROW(TransformerDecoder(0, 8, 2), InputError);
}

}  // namespace
}  // namespace lockstep::nn
