// Parts of a GPT on one thread: benchmarks/pytorch/gpt.py is its counterpart, and
// benchmarks/compare_gpt.sh runs both in turn.
//   nn.gpt_bench attention [SECONDS]   forward and backward of causal attention, 1024 positions,
//                                      6 heads of 64: milliseconds, the least
//                                      with PRECISION=bf16 in the environment products in bf16
//   nn.gpt_bench sample [SECONDS]      a text of 255 tokens from one, 6 layers of width 384, 96
//                                      tokens: tokens/s, the most
#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>

#include <lockstep/autograd/autocast.hpp>
#include <lockstep/autograd/backward.hpp>
#include <lockstep/autograd/functional/attention.hpp>
#include <lockstep/nn/init.hpp>
#include <lockstep/nn/models/gpt_sampler.hpp>
#include <lockstep/nn/random.hpp>
#include <lockstep/tensor/math_libraries.hpp>
#include <support/timing.hpp>

namespace lockstep {
namespace {

void attention(double seconds) {
  const Shape shape{1, 6, 1024, 64};
  const Variable q(nn::normal(shape, 1.0), true), k(nn::normal(shape, 1.0), true),
      v(nn::normal(shape, 1.0), true);
  const std::array<Tensor, 1> upstream{nn::normal(shape, 1.0)};
  AttentionOptions causal;
  causal.causal = true;
  const Autocast autocast(bench::precision_of_environment());
  const double best = bench::fastest(seconds, [&] {
    const std::array<Variable, 1> roots{scaled_dot_product_attention(q, k, v, causal)};
    backward(roots, upstream);
    for (const Variable* x : {&q, &k, &v}) x->zero_grad();
  });
  std::printf("attention_ms %.3f\n", best * 1e3);
}

void sample(double seconds) {
  const auto model = std::make_shared<nn::Gpt>(
      nn::GptOptions{.vocabulary = 96, .context = 256, .width = 384, .depth = 6, .heads = 6});
  model->eval();
  constexpr std::array<std::int64_t, 1> text{1};
  constexpr int tokens = 255;
  const double best = bench::fastest(seconds, [&] {
    nn::GptSampler sampler(model, text, {.temperature = 0.8, .top_k = 40});
    for (int i = 0; i < tokens; ++i) static_cast<void>(sampler.next());
  });
  std::printf("sample_tokens_per_s %.1f\n", tokens / best);
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  const double seconds = argc > 2 ? std::atof(argv[2]) : 3.0;
  lockstep::set_math_threads(1);
  lockstep::nn::manual_seed(1);
  if (what == "attention") {
    lockstep::attention(seconds);
  } else if (what == "sample") {
    lockstep::sample(seconds);
  } else {
    std::fputs("usage: nn.gpt_bench attention|sample [SECONDS]\n", stderr);
    return 2;
  }
}
