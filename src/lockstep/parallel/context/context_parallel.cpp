#include <lockstep/parallel/context/context_parallel.hpp>

#include <memory>
#include <string>
#include <utility>

#include <lockstep/base/error.hpp>
#include <lockstep/comm/agreed_error.hpp>
#include <lockstep/comm/call_label.hpp>
#include <lockstep/nn/layers/attention.hpp>
#include <lockstep/nn/layers/dropout.hpp>
#include <lockstep/nn/models/gpt.hpp>
#include <lockstep/nn/sliced_sequence.hpp>
#include <lockstep/parallel/context/ring_attention.hpp>
#include <lockstep/parallel/context/sliced_dropout.hpp>

namespace lockstep {
namespace {

class RingSequence final : public nn::SlicedSequence {
 public:
  RingSequence(GroupPtr group, SequenceOrder order) : group_(std::move(group)), order_(order) {}

  Variable self_attention(const Variable& qkv, std::int64_t heads,
                          const AttentionOptions& options) override {
    if (options.mask.defined()) {
      throw InputError(
          "context_parallel: attention over slices of sequences takes a key_padding_mask and "
          "causal, "
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
    const Tensor lengths = Tensor::empty({group_->size()}, DType::i64);
    group_->all_gather(Tensor::full({}, static_cast<double>(tokens), DType::i64), lengths).wait();
    const SlicePositions mine = slice_positions(lengths, group_->rank(), order_);
    if (mine.length > context) {
      throw Agreed<ShapeError>("the slices of a sequence have " + std::to_string(mine.length) +
                               " tokens together, more than the model's context of " +
                               std::to_string(context) + ".");
    }
    Tensor positions = Tensor::empty({tokens}, DType::i64);
    auto* at = static_cast<std::int64_t*>(positions.data());
    for (const SequenceRun& run : mine.runs) {
      for (std::int64_t i = run.begin; i < run.end; ++i) *at++ = i;
    }
    return positions;
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

/// Throws InputError for a Dropout1d, 2d or 3d below `module`.
void expect_no_dropout_of_channels(const nn::Module& module) {
  if (dynamic_cast<const nn::Dropout*>(&module) && !nn::drops_elements(module)) {
    throw InputError(
        "context_parallel: the model has a Dropout1d, 2d or 3d, whose masks of whole channels are "
        "not divided over ranks. Use Dropout, which is.");
  }
  for (const auto& [name, child] : module.children()) expect_no_dropout_of_channels(*child);
}

/// Gives `partition` to each Dropout below `module` that ranks do not share out already.
void give_dropout(nn::Module& module, const std::shared_ptr<const nn::Partition>& partition) {
  if (nn::drops_elements(module) && !module.partition()) module.set_partition(partition);
  for (const auto& [name, child] : module.children()) give_dropout(*child, partition);
}

}  // namespace

void context_parallel(nn::Module& model, const GroupPtr& group, SequenceOrder order) {
  if (!group) throw InputError("context_parallel needs a group, not a null pointer.");
  expect_no_dropout_of_channels(model);
  const auto sequence = std::make_shared<RingSequence>(group, order);
  if (give(model, sequence) == 0) {
    throw InputError(
        "context_parallel: the model has neither a Gpt nor a MultiheadAttention, so it does not "
        "attend over sequences. Call ring_attention in its forward.");
  }
  give_dropout(model, std::make_shared<SlicedDropout>(group, order, sequence));
}

}  // namespace lockstep
