#include <lockstep/parallel/context/context_parallel.hpp>

#include <memory>
#include <numeric>
#include <string>
#include <utility>

#include <lockstep/base/error.hpp>
#include <lockstep/comm/agreed_error.hpp>
#include <lockstep/comm/call_label.hpp>
#include <lockstep/nn/layers/attention.hpp>
#include <lockstep/nn/models/gpt.hpp>
#include <lockstep/nn/sliced_sequence.hpp>
#include <lockstep/parallel/context/ring_attention.hpp>

namespace lockstep {
namespace {

class RingSequence final : public nn::SlicedSequence {
 public:
  RingSequence(GroupPtr group, SequenceOrder order) : group_(std::move(group)), order_(order) {}

  Variable self_attention(const Variable& qkv, std::int64_t heads,
                          const AttentionOptions& options) override {
    if (options.mask.defined()) {
      throw InputError(
          "context_parallel: attention over slices of sequences takes a key_padding_mask and causal, "
          "but no mask of queries and keys.");
    }
    return ring_self_attention(qkv, heads, group_,
                               {.causal = options.causal,
                                .scale = options.scale,
                                .order = order_,
                                .key_padding_mask = options.key_padding_mask});
  }

  Tensor positions(std::int64_t tokens, std::int64_t context) override {
    const CallLabel label("positions of slices");
    const int size = group_->size();
    const Tensor lengths = Tensor::empty({size}, DType::i64);
    group_->all_gather(Tensor::full({}, static_cast<double>(tokens), DType::i64), lengths).wait();
    const auto* const tokens_of = static_cast<const std::int64_t*>(lengths.data());
    const std::int64_t length = std::accumulate(tokens_of, tokens_of + size, std::int64_t{0});
    if (length > context) {
      throw Agreed<ShapeError>("the slices of a sequence have " + std::to_string(length) +
                               " tokens together, more than the model's context of " +
                               std::to_string(context) + ".");
    }
    // Chunks in the order of the sequence: as ring_attention, by the slices that there are.
    const bool zigzag = order_ == SequenceOrder::zigzag;
    Tensor mine = Tensor::empty({tokens}, DType::i64);
    auto* at = static_cast<std::int64_t*>(mine.data());
    std::int64_t begin = 0;
    for (int chunk = 0; chunk < (zigzag ? 2 * size : size); ++chunk) {
      const bool second = chunk >= size;
      const int owner = second ? 2 * size - 1 - chunk : chunk;
      const std::int64_t all = tokens_of[owner], first = zigzag ? (all + 1) / 2 : all;
      const std::int64_t count = second ? all - first : first;
      for (std::int64_t i = 0; owner == group_->rank() && i < count; ++i) *at++ = begin + i;
      begin += count;
    }
    return mine;
  }

 private:
  GroupPtr group_;
  SequenceOrder order_;
};

/// Returns how many layers of `module` and below it got `sequence`.
int give(nn::Module& module, const std::shared_ptr<nn::SlicedSequence>& sequence) {
  if (auto* gpt = dynamic_cast<nn::Gpt*>(&module)) {
    gpt->set_sliced_sequence(sequence);
    return 1;
  }
  if (auto* attention = dynamic_cast<nn::MultiheadAttention*>(&module)) {
    attention->set_sliced_sequence(sequence);
    return 1;
  }
  int layers = 0;
  for (const auto& [name, child] : module.children()) layers += give(*child, sequence);
  return layers;
}

}  // namespace

void context_parallel(nn::Module& model, const GroupPtr& group, SequenceOrder order) {
  if (!group) throw InputError("context_parallel needs a group, not a null pointer.");
  if (give(model, std::make_shared<RingSequence>(group, order)) == 0) {
    throw InputError(
        "context_parallel: the model has neither a Gpt nor a MultiheadAttention, so it does not "
        "attend over sequences. Call ring_attention in its forward.");
  }
}

}  // namespace lockstep
