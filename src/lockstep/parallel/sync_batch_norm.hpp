#pragma once
#include <cstdint>
#include <memory>

#include <lockstep/comm/process_group.hpp>
#include <lockstep/nn/layers/batch_norm.hpp>

namespace lockstep {

/// The ranks of `group`, for batch_norm. Uses the group's duplicate, so its calls within forward
/// and backward are ordered independently of the group's other calls, for example
/// DistributedDataParallel's all-reduces. Collective over `group`, which must stay open during
/// training.
[[nodiscard]] std::shared_ptr<const StatisticsExchange> make_statistics_exchange(
    ProcessGroup& group);

/// Makes every BatchNorm within `module` normalise by the statistics of all samples on the ranks of
/// `group`: PyTorch's convert_sync_batchnorm. Layers, parameters, buffers and names are unchanged.
/// Collective over `group`, with the same model.
///
/// In training forward is then collective, and so is backward: every rank runs the same layers in
/// the same order and differentiates a loss that depends on all of them. Ranks may hold different
/// numbers of samples; one without samples runs forward on a batch of 0 samples ([0, C, H, W]) and
/// differentiates sum(output). Losses must add up to the global one, as with
/// DistributedDataParallel's weights; the gradients of weight and bias are a rank's parts, to be
/// summed. All ranks have the same bits of the running statistics. Evaluation sends nothing.
/// DistributedDataParallel refuses such a model with DdpOptions::shards.
void convert_sync_batchnorm(nn::Module& module, ProcessGroup& group);

/// A BatchNorm over x[N, C, ...] whose batch is that of all ranks of a group: PyTorch's
/// SyncBatchNorm. See convert_sync_batchnorm for the rules.
class SyncBatchNorm : public nn::BatchNorm {
 public:
  /// Collective over `group`. Throws InputError as nn::BatchNorm2d.
  SyncBatchNorm(std::int64_t features, ProcessGroup& group,
                const nn::BatchNormOptions& options = {});
};

}  // namespace lockstep
