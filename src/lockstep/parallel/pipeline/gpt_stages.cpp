#include <lockstep/parallel/pipeline/gpt_stages.hpp>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <numeric>
#include <string>

#include <lockstep/autograd/functional/arithmetic.hpp>
#include <lockstep/autograd/functional/linear.hpp>
#include <lockstep/autograd/functional/linear_cross_entropy.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/nn/layers/embedding.hpp>
#include <lockstep/nn/module_list.hpp>
#include <lockstep/nn/partition.hpp>
#include <lockstep/parallel/pipeline/split.hpp>

namespace lockstep {
namespace {

std::shared_ptr<nn::Module> child_of(const nn::Module& module, const std::string& name) {
  const auto& children = module.children();
  const auto place = std::ranges::find(children, name,
                                       &std::pair<std::string, std::shared_ptr<nn::Module>>::first);
  if (place == children.end()) throw Error("a Gpt has no module " + name);
  return place->second;
}

}  // namespace

GptStage::GptStage(const nn::Gpt& gpt, std::size_t first, std::size_t end, bool is_first,
                   bool is_last)
    : options_(gpt.options()) {
  const auto wte = std::static_pointer_cast<nn::Embedding>(child_of(gpt, "wte"));
  if (is_first || is_last) register_module("wte", wte);
  if (is_first) {
    wte_ = wte;
    wpe_ = register_module("wpe", child_of(gpt, "wpe"));
    dropout_ = register_module("dropout", child_of(gpt, "dropout"));
  }
  const auto h = std::make_shared<nn::ModuleDict>();
  const auto& blocks = child_of(gpt, "h")->children();
  for (std::size_t i = first; i < end; ++i) {
    h->insert(blocks[i].first, blocks[i].second);
    blocks_.push_back(blocks[i].second);
  }
  register_module("h", h);
  if (!is_last) return;
  ln_f_ = register_module("ln_f", child_of(gpt, "ln_f"));
  head_ = wte->weight();
}

Variable GptStage::embedded(const Variable& tokens) {
  const Tensor& data = tokens.data();
  if (data.dims() != 2 || data.dtype() != DType::i64) {
    throw ShapeError("the first stage of a gpt takes tokens i64[B, T], not " + describe(data));
  }
  std::vector<std::int64_t> positions(static_cast<std::size_t>(data.size(1)));
  std::iota(positions.begin(), positions.end(), std::int64_t{0});
  const Variable at(Tensor::from(positions, {1, data.size(1)}).to(data.device()));
  const Variable x = (*wte_)(tokens) + (*wpe_)(at);
  return (*dropout_)(partition() ? partition()->enter(x) : x);
}

Variable GptStage::forward(const Variable& x) {
  Variable y = wte_ ? embedded(x) : x;
  if (options_.recompute && recomputed_.empty()) {
    for (const auto& block : blocks_) recomputed_.emplace_back(block);
  }
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    y = options_.recompute ? recomputed_[i](y) : (*blocks_[i])(y);
  }
  return ln_f_ ? (*ln_f_)(y) : y;
}

const Variable& GptStage::head() const {
  if (!head_.defined()) throw Error("only the last stage of a gpt has its head");
  return head_;
}

Variable GptStage::loss(const Variable& x, const Tensor& target, const LossOptions& options) const {
  // GPipe's losses of all micro-batches would each hold a gradient of the head.
  constexpr auto when = LossGradients::in_backward;
  if (partition()) return partition()->linear_cross_entropy(x, head(), target, options, when);
  return linear_cross_entropy(x, head(), target, options, when);
}

Variable GptStage::logits(const Variable& x) const {
  return partition() ? partition()->linear(x, head(), {}) : linear(x, head(), {});
}

std::vector<std::shared_ptr<GptStage>> split_into_stages(const nn::Gpt& gpt,
                                                         ListView<std::size_t> first) {
  const auto depth = static_cast<std::size_t>(gpt.options().depth);
  const bool rises = std::ranges::adjacent_find(first, std::greater_equal<>()) == first.end();
  if (first.empty() || first[0] != 0 || !rises || first.back() > depth) {
    throw InputError(
        "the first blocks of a gpt's stages must begin with 0 and rise, at most to the number of "
        "blocks, " +
        std::to_string(depth) + ".");
  }
  std::vector<std::shared_ptr<GptStage>> stages;
  for (std::size_t s = 0; s < first.size(); ++s) {
    const bool is_last = s + 1 == first.size();
    stages.push_back(
        std::make_shared<GptStage>(gpt, first[s], is_last ? depth : first[s + 1], s == 0, is_last));
  }
  return stages;
}

std::vector<std::shared_ptr<GptStage>> split_into_stages(const nn::Gpt& gpt, int stages) {
  const nn::GptOptions& options = gpt.options();
  // Products a token: 12 width^2 in a block, and the attention's with half the context on average.
  const auto width = static_cast<double>(options.width);
  std::vector<double> costs(static_cast<std::size_t>(options.depth),
                            12.0 * width * width + width * static_cast<double>(options.context));
  costs.push_back(width * static_cast<double>(options.vocabulary));  // the head
  return split_into_stages(gpt, balanced_stages(costs, stages));
}

std::vector<StageParameter> tied_embedding(int stages) {
  return {{0, "wte.weight"}, {stages - 1, "wte.weight"}};
}

}  // namespace lockstep
