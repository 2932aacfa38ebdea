// The graphs of attention, without a GPU: cuDNN's frontend checks them for an architecture.
#include <cstdint>
#include <string>

#include <gtest/gtest.h>
#include <lockstep/tensor/math/cudnn_attention_graph.hpp>

namespace lockstep::math {
namespace {

/// Of [batch, rows, heads, width] in memory.
Attention::Strides side_by_side(std::int64_t rows, std::int64_t heads, std::int64_t width) {
  return {.batch = rows * heads * width, .head = width, .row = heads * width};
}

Attention attention_of(AttentionPass pass, bool causal) {
  Attention a{.pass = pass, .batch = 2, .heads = 12, .queries = 80, .keys = 80, .width = 64};
  a.causal = causal;
  a.alignment = 16;
  a.q = a.k = a.v = a.out = side_by_side(a.queries, a.heads, a.width);
  a.grad_out = a.grad_q = a.grad_k = a.grad_v = a.q;
  return a;
}

/// Empty if the frontend finds the graph valid, else what it says.
std::string refusal(const Attention& a, int compute_capability) {
  cudnn_frontend::graph::Graph graph;
  graph.set_sm_version(compute_capability);
  attention_graph::describe(a, graph);
  auto status = graph.validate();
  return status.is_good() ? "" : describe(a) + ": " + status.get_message();
}

/// Calls f(attention, compute capability) for all passes and architectures.
template <class F>
void for_each_form(const F& f) {
  for (const int compute_capability : {80, 90, 100}) {
    for (const auto pass : {AttentionPass::forward, AttentionPass::backward}) {
      for (const bool causal : {false, true}) f(attention_of(pass, causal), compute_capability);
    }
  }
}

TEST(CudnnAttentionGraph, IsValid) {
  for_each_form([](const Attention& a, int gpu) { EXPECT_EQ(refusal(a, gpu), "") << gpu; });
}

TEST(CudnnAttentionGraph, OfAWidthThatCudnnLacksIsNot) {
  for_each_form([](Attention a, int gpu) {
    a.width = 60;
    EXPECT_NE(refusal(a, gpu), "") << gpu;
  });
}

TEST(CudnnAttentionGraph, WithAKeyBiasIsValid) {
  for_each_form([](Attention a, int gpu) {
    a.key_bias_row = 80;
    EXPECT_EQ(refusal(a, gpu), "") << gpu;
  });
}

TEST(CudnnAttentionGraph, WithFewerHeadsOfKeysIsValid) {
  for_each_form([](Attention a, int gpu) {
    for (const std::int64_t group_heads : {3, 12}) {
      a.group_heads = group_heads;
      a.k = a.v = a.grad_k = a.grad_v = side_by_side(a.keys, a.heads / group_heads, a.width);
      EXPECT_EQ(refusal(a, gpu), "") << gpu;
    }
  });
}

TEST(CudnnAttentionGraph, WithHeadsOfKeysThatDivideNoOthersIsNot) {
  for_each_form([](Attention a, int gpu) {
    a.heads = 13;
    a.group_heads = 3;  // 13 / 3 heads of keys are 4
    EXPECT_NE(refusal(a, gpu), "") << gpu;
  });
}

}  // namespace
}  // namespace lockstep::math
