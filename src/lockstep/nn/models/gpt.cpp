#include <lockstep/nn/models/gpt.hpp>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <utility>

#include <lockstep/autograd/autocast.hpp>
#include <lockstep/autograd/functional/activation.hpp>
#include <lockstep/autograd/functional/arithmetic.hpp>
#include <lockstep/autograd/functional/attention.hpp>
#include <lockstep/autograd/functional/linear.hpp>
#include <lockstep/autograd/functional/linear_cross_entropy.hpp>
#include <lockstep/autograd/functional/loss.hpp>
#include <lockstep/autograd/layer_scope.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/deck/deck.hpp>
#include <lockstep/nn/expect.hpp>
#include <lockstep/nn/forward_hook.hpp>
#include <lockstep/nn/init.hpp>
#include <lockstep/nn/layers/dropout.hpp>
#include <lockstep/nn/layers/embedding.hpp>
#include <lockstep/nn/layers/linear.hpp>
#include <lockstep/nn/layers/norm.hpp>
#include <lockstep/nn/mode_guard.hpp>
#include <lockstep/nn/models/transformer.hpp>
#include <lockstep/nn/partition.hpp>
#include <lockstep/nn/recompute.hpp>
#include <lockstep/nn/sliced_sequence.hpp>
#include <lockstep/tensor/kernels/linalg/linear.hpp>
#include <lockstep/tensor/kernels/sequence/attention.hpp>
#include <lockstep/tensor/math/device_math.hpp>
#include <lockstep/tensor/sum_dtype.hpp>

namespace lockstep::nn {
namespace {

constexpr double spread = 0.02;  // GPT-2's standard deviation for initial matrices

std::shared_ptr<Linear> projection(std::int64_t in, std::int64_t out, double deviation) {
  return std::make_shared<Linear>(normal({out, in}, deviation), Tensor::zeros({out}));
}

/// For matrices whose products are summed over the depth.
double residual_spread(const GptOptions& options) {
  return spread / std::sqrt(2.0 * static_cast<double>(options.depth));
}

const GptOptions& checked(const GptOptions& options) {
  expect_positive("model gpt", "vocabulary", options.vocabulary);
  expect_positive("model gpt", "context", options.context);
  expect_positive("model gpt", "width", options.width);
  expect_positive("model gpt", "depth", options.depth);
  expect_positive("model gpt", "heads", options.heads);
  if (options.width % options.heads != 0) {
    throw InputError("model gpt: model.heads (" + std::to_string(options.heads) +
                     ") must divide model.width (" + std::to_string(options.width) + ")");
  }
  return options;
}

}  // namespace

class GptAttention : public Module {
 public:
  explicit GptAttention(const GptOptions& options)
      : heads_(options.heads),
        head_width_(options.width / options.heads),
        c_attn_(register_module("c_attn", projection(options.width, 3 * options.width, spread))),
        c_proj_(register_module(
            "c_proj", projection(options.width, options.width, residual_spread(options)))),
        dropout_(register_module("dropout", std::make_shared<Dropout>(options.dropout))) {}

  Variable forward(const Variable& x) override {
    AttentionOptions causal;
    causal.causal = true;
    const Variable projected = (*c_attn_)(x);
    // As many heads as c_attn has rows for: this rank's, if ranks share them out.
    const std::int64_t heads = projected.shape()[-1] / (3 * head_width_);
    return (*dropout_)((*c_proj_)(sequence_ ? sequence_->self_attention(projected, heads, causal)
                                            : self_attention(projected, heads, causal)));
  }
  void set_sliced_sequence(const std::shared_ptr<SlicedSequence>& sequence) {
    sequence_ = sequence;
  }

  /// The same for x[1,n,width] alone. It follows the first `seen` rows of `cache` [context, 3
  /// width], which holds the products c_attn(x) so far.
  Variable next(const Tensor& x, const Tensor& cache, std::int64_t seen) {
    const std::int64_t n = x.size(1), width = x.size(2), keys = seen + n, head = width / heads_;
    linear_forward(x.reshape({n, width}), c_attn_->weight().data(), c_attn_->bias().data(),
                   cache.slice(seen, keys));
    const Tensor rows = cache.slice(0, keys).reshape({1, keys, 3 * width});
    const auto part = [&](int i) { return heads_in(rows, heads_, i, 3); };
    Heads queries = part(0);
    queries.offset += seen * queries.row;
    AttentionPlan plan{.batch = 1,
                       .heads = heads_,
                       .queries = n,
                       .keys = keys,
                       .width = head,
                       .scale = 1.0 / std::sqrt(static_cast<double>(head)),
                       .causal = seen == 0,
                       .mask = n > 1 && seen > 0 ? seen_by_each(n, keys).to(x.device()) : Tensor(),
                       .key_padding_mask = {}};
    const Tensor y = Tensor::empty(x.shape(), x.dtype(), x.device());
    const Tensor log_sum = Tensor::empty({1, heads_, n}, sum_dtype(x.dtype()), x.device());
    attention_forward(plan, queries, part(1), part(2), heads_in(y, heads_, 0, 1), log_sum);
    return (*c_proj_)(Variable(y));
  }

 private:
  /// The keys that each of the last n tokens sees: all up to its own.
  static Tensor seen_by_each(std::int64_t n, std::int64_t keys) {
    Tensor mask = Tensor::zeros({n, keys}, DType::boolean);
    for (std::int64_t i = 0; i < n; ++i)
      std::fill_n(static_cast<bool*>(mask.data()) + i * keys, keys - n + i + 1, true);
    return mask;
  }

  std::int64_t heads_, head_width_;
  std::shared_ptr<Linear> c_attn_, c_proj_;
  std::shared_ptr<Dropout> dropout_;
  std::shared_ptr<SlicedSequence> sequence_;
};

class GptMlp : public Module {
 public:
  explicit GptMlp(const GptOptions& options)
      : c_fc_(register_module("c_fc", projection(options.width, 4 * options.width, spread))),
        c_proj_(register_module(
            "c_proj", projection(4 * options.width, options.width, residual_spread(options)))),
        dropout_(register_module("dropout", std::make_shared<Dropout>(options.dropout))) {}

  Variable forward(const Variable& x) override { return (*dropout_)(projected(x, true)); }
  /// For backward only: the values of the result are not needed.
  Variable forward_again(const Variable& x) {
    // A unit of FullyShardedDataParallel waits for its parameters here.
    if (ForwardHook* const hook = ForwardHook::current()) hook->before(*this, x);
    return (*dropout_)(projected(x, false));
  }

 private:
  [[nodiscard]] Variable projected(const Variable& x, bool with_values) {
    if (is_fused(x)) {
      const LayerScope scope(c_fc_->trace_name());  // the first layer, as in a fused row
      return linear_gelu_linear(x, c_fc_->weight(), c_fc_->bias(), c_proj_->weight(),
                                c_proj_->bias(), with_values);
    }
    const Variable hidden = gelu((*c_fc_)(x), Gelu::tanh);
    return with_values ? (*c_proj_)(hidden) : c_proj_->forward_without_values(hidden);
  }
  [[nodiscard]] bool is_fused(const Variable& x) const {
    return math::device_math(x.data().device()) &&
           (autocast_enabled() || is_half(x.data().dtype())) &&
           !ForwardHook::is_on_parts_of(*this) && c_fc_->partition() == nullptr &&
           c_proj_->partition() == nullptr;
  }

  std::shared_ptr<Linear> c_fc_, c_proj_;
  std::shared_ptr<Dropout> dropout_;
};

class GptBlock : public Module {
 public:
  explicit GptBlock(const GptOptions& options)
      : ln_1_(register_module("ln_1", std::make_shared<LayerNorm>(options.width))),
        attn_(register_module("attn", std::make_shared<GptAttention>(options))),
        ln_2_(register_module("ln_2", std::make_shared<LayerNorm>(options.width))),
        mlp_(register_module("mlp", std::make_shared<GptMlp>(options))) {}

  Variable forward(const Variable& x) override {
    const Variable attended = x + (*attn_)((*ln_1_)(x));
    return attended + (*mlp_)((*ln_2_)(attended));
  }

  /// Skips GptMlp's second product, a third of the computation: only its sum with `attended`
  /// follows.
  static Variable forward_again(Module& module, const Variable& x) {
    auto& block = static_cast<GptBlock&>(module);
    const Variable attended = x + (*block.attn_)((*block.ln_1_)(x));
    return attended + block.mlp_->forward_again((*block.ln_2_)(attended));
  }

  void set_sliced_sequence(const std::shared_ptr<SlicedSequence>& sequence) {
    attn_->set_sliced_sequence(sequence);
  }

  Variable next(const Variable& x, const Tensor& cache, std::int64_t seen) {
    const Variable attended = x + attn_->next((*ln_1_)(x).data(), cache, seen);
    return attended + (*mlp_)((*ln_2_)(attended));
  }

 private:
  std::shared_ptr<LayerNorm> ln_1_;
  std::shared_ptr<GptAttention> attn_;
  std::shared_ptr<LayerNorm> ln_2_;
  std::shared_ptr<GptMlp> mlp_;
};

/// h: blocks with names 0, 1, ...
class GptBlocks : public Module {
 public:
  explicit GptBlocks(bool recompute) : recompute_(recompute) {}

  void add(const std::shared_ptr<GptBlock>& block) {
    register_module(std::to_string(children().size()), block);
  }
  Variable forward(const Variable& x) override {
    Variable y = x;
    if (!recompute_ || !grad_enabled()) {  // threads may predict at the same time
      for (const auto& [name, block] : children()) y = (*block)(y);
      return y;
    }
    // Made late: now it is known which parameters are trained.
    if (recomputed_.empty()) {
      for (const auto& [name, block] : children())
        recomputed_.emplace_back(block, GptBlock::forward_again);
    }
    for (Recomputed& block : recomputed_) y = block(y);
    return y;
  }

 private:
  bool recompute_;
  std::vector<Recomputed> recomputed_;
};

GptCache::GptCache(const Gpt& model) : context_(model.options().context) {
  const GptOptions& options = model.options();
  const Tensor& like = model.parameters().front().data();
  const DType dtype = like.dtype();
  if (is_half(dtype)) {
    throw InputError("a gpt samples tokens in f32 or f64, and this one's parameters are " +
                     std::string(name_of(dtype)) + ": convert it with to(DType::f32)");
  }
  if (model.partition()) {
    throw InputError(
        "a gpt whose blocks are divided over ranks does not sample tokens: save a checkpoint and "
        "sample from a model that is whole");
  }
  for (std::int64_t i = 0; i < options.depth; ++i) {
    projected_.push_back(Tensor::empty({context_, 3 * options.width}, dtype, like.device()));
  }
}

Gpt::Gpt(const GptOptions& options) : options_(checked(options)) {
  wte_ = register_module(
      "wte", std::make_shared<Embedding>(normal({options.vocabulary, options.width}, spread)));
  wpe_ = register_module(
      "wpe", std::make_shared<Embedding>(normal({options.context, options.width}, spread)));
  std::vector<std::int64_t> positions(static_cast<std::size_t>(options.context));
  std::iota(positions.begin(), positions.end(), std::int64_t{0});
  positions_ = Tensor::from(positions, {options.context});
  dropout_ = register_module("dropout", std::make_shared<Dropout>(options.dropout));
  const auto h = std::make_shared<GptBlocks>(options.recompute);
  for (std::int64_t i = 0; i < options.depth; ++i) {
    blocks_.push_back(std::make_shared<GptBlock>(options));
    h->add(blocks_.back());
  }
  h_ = register_module("h", h);
  ln_f_ = register_module("ln_f", std::make_shared<LayerNorm>(options.width));
}

Variable Gpt::embedded(const Variable& tokens, std::int64_t first) {
  const Shape& shape = tokens.shape();
  if (shape.dims() != 2 || tokens.data().dtype() != DType::i64 ||
      first + shape[1] > options_.context) {
    throw ShapeError("this gpt takes tokens i64[B, T] at positions below its context of " +
                     std::to_string(options_.context) + ", not " + describe(tokens.data()) +
                     " from position " + std::to_string(first));
  }
  const Device device = tokens.data().device();
  if (positions_.device() != device) positions_ = positions_.to(device);  // once
  const Tensor positions = positions_.slice(first, first + shape[1]).reshape({1, shape[1]});
  return (*wte_)(tokens) + (*wpe_)(Variable(positions));
}

Variable Gpt::embedded_slice(const Variable& tokens) {
  if (tokens.shape().dims() != 2) return embedded(tokens, 0);  // which refuses it
  const std::int64_t length = tokens.shape()[1];
  const Tensor positions = sequence_->positions(length, options_.context);
  return (*wte_)(tokens) +
         (*wpe_)(Variable(positions.to(tokens.data().device()).reshape({1, length})));
}

Variable Gpt::hidden(const Variable& tokens) {
  const Variable x = sequence_ ? embedded_slice(tokens) : embedded(tokens, 0);
  return (*ln_f_)((*h_)((*dropout_)(partition() ? partition()->enter(x) : x)));
}

void Gpt::set_sliced_sequence(std::shared_ptr<SlicedSequence> sequence) {
  sequence_ = std::move(sequence);
  for (const auto& block : blocks_) block->set_sliced_sequence(sequence_);
}

bool Gpt::forward_is_collective() const {
  return sequence_ != nullptr || Module::forward_is_collective();
}

Variable Gpt::forward(const Variable& tokens) {
  const Variable x = hidden(tokens);
  return partition() ? partition()->linear(x, wte_->weight(), {}) : linear(x, wte_->weight(), {});
}

Variable Gpt::loss(const Variable& tokens, const Tensor& target, const LossOptions& options) {
  const Variable x = hidden(tokens);
  constexpr auto when = LossGradients::in_forward;
  if (partition())
    return partition()->linear_cross_entropy(x, wte_->weight(), target, options, when);
  return linear_cross_entropy(x, wte_->weight(), target, options, when);
}

Tensor Gpt::next_logits(const Tensor& tokens, GptCache& cache) {
  const NoGradGuard no_grad;
  const ModeGuard evaluating(*this, false);
  const std::int64_t n = tokens.numel(), seen = cache.length_;
  if (n == 0) throw ShapeError("next_logits needs at least one token");
  Variable x = embedded(Variable(tokens.reshape({1, n})), seen);
  for (std::size_t i = 0; i < blocks_.size(); ++i)
    x = blocks_[i]->next(x, cache.projected_[i], seen);
  cache.length_ += n;
  const Variable last(x.data().reshape({n, options_.width}).slice(n - 1, n));
  const Tensor logits = linear((*ln_f_)(last), wte_->weight(), {}).data();
  return logits.reshape({options_.vocabulary});
}

std::shared_ptr<Module> GptDeckOptions::make(const ModelFit& fit) const {
  if (fit.has_numbers()) {
    throw InputError(
        "model.kind = \"gpt\" trains on tokens, but the data are numbers. Use data.kind = "
        "\"tokens\" "
        "with the program gpt, or another model.kind.");
  }
  const std::int64_t tokens = fit.sample.dims() == 1 ? fit.sample[0] : 0;
  const std::int64_t positions = context > 0 ? context : tokens;
  if (tokens == 0 || tokens > positions) {
    throw InputError("model gpt takes samples of at most " + std::to_string(positions) +
                     " tokens (model.context), not of shape " + to_string(fit.sample) +
                     ". Change data.context or model.context.");
  }
  return std::make_shared<Gpt>(GptOptions{.vocabulary = fit.output.dims() > 0 ? fit.output[-1] : 1,
                                          .context = positions,
                                          .width = width,
                                          .depth = depth,
                                          .heads = heads,
                                          .dropout = residual_dropout,
                                          .recompute = recompute});
}

void declare(DeckTable& table, GptDeckOptions& options) {
  declare_width_depth_and_heads(table, options, "blocks");
  table.key("context", options.context,
            {.doc = "longest sequence; 0: data.context", .unit = "tokens", .min = 0});
  table.key("residual_dropout", options.residual_dropout,
            {.doc = "dropout after the embeddings and the two projections of each block",
             .min = 0.0,
             .max = 0.99});
  table.key("recompute", options.recompute,
            {.doc = "recompute each block in backward: less memory, a third more arithmetic, the "
                    "same bits"});
}

}  // namespace lockstep::nn
