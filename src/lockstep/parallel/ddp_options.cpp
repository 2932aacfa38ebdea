#include <lockstep/parallel/ddp_options.hpp>

#include <algorithm>

#include <fmt/format.h>

#include <lockstep/base/error.hpp>
#include <lockstep/nn/layers/batch_norm.hpp>
#include <lockstep/parallel/comm_hook.hpp>
#include <lockstep/parallel/post_local_sgd.hpp>
#include <lockstep/parallel/power_sgd_hook.hpp>

namespace lockstep {

namespace {

[[noreturn]] void refuse_synchronised_shards(const char* what) {
  throw InputError(
      fmt::format("sums over shards compute one shard after the other, but SyncBatchNorm needs the "
                  "whole batch at once: {}. Train with BatchNorm, which uses the statistics of "
                  "each shard, or with train.reduction = \"fast\" (without DdpOptions::shards).",
                  what));
}

}  // namespace

void validate(const DdpOptions& options) {
  const BucketOptions& sizes = options.buckets;
  if (sizes.first_bucket_bytes < 1 || sizes.bucket_bytes < 1) {
    throw InputError(
        fmt::format("DistributedDataParallel: first_bucket_bytes ({}) and bucket_bytes "
                    "({}) must be at least 1",
                    sizes.first_bucket_bytes, sizes.bucket_bytes));
  }
  if (options.shards == 0) return;
  const char* remedy =
      "Set it back, or train with train.reduction = \"fast\" (without DdpOptions::shards).";
  if (options.comm_hook != CommHookKind::all_reduce) {
    throw InputError(fmt::format(
        "sums over shards are exact: ddp.comm_hook must be \"all_reduce\". {}", remedy));
  }
  if (options.broadcast_buffers_each_forward) {
    throw InputError(
        fmt::format("sums over shards already make buffers equal: "
                    "ddp.broadcast_buffers_each_forward must be "
                    "false. {}",
                    remedy));
  }
  if (options.sync_batch_norm) refuse_synchronised_shards("ddp.sync_batch_norm must be false");
}

void validate(const DdpOptions& options, nn::Module& model) {
  validate(options);
  if (options.shards > 0 &&
      std::ranges::any_of(nn::batch_norms_of(model), &nn::BatchNorm::has_exchange)) {
    refuse_synchronised_shards("the model must have no SyncBatchNorm");
  }
}

std::unique_ptr<CommHook> make_comm_hook(const DdpOptions& options) {
  switch (options.comm_hook) {
    case CommHookKind::fp16_compress:
      return std::make_unique<CompressHook>(DType::f16);
    case CommHookKind::bf16_compress:
      return std::make_unique<CompressHook>(DType::bf16);
    case CommHookKind::power_sgd:
      return std::make_unique<PowerSgdHook>(options.power_sgd);
    case CommHookKind::post_local_sgd:
      return std::make_unique<PostLocalSgdHook>(nullptr, options.local_sgd.start_step);
    case CommHookKind::all_reduce:
      break;
  }
  return std::make_unique<AllReduceHook>();
}

}  // namespace lockstep
