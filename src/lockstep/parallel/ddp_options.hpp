#pragma once
#include <cstdint>
#include <memory>

#include <lockstep/parallel/bucket_plan.hpp>
#include <lockstep/parallel/hook_options.hpp>

namespace lockstep {

class CommHook;
class DeckTable;
namespace nn {
class Module;
}

/// Hooks with a name in decks: `ddp.comm_hook`.
enum class CommHookKind : std::uint8_t {
  all_reduce,
  fp16_compress,
  bf16_compress,
  power_sgd,
  post_local_sgd
};

/// Options of DistributedDataParallel.
struct DdpOptions {
  BucketOptions buckets;
  CommHookKind comm_hook = CommHookKind::all_reduce;
  PowerSgdOptions power_sgd = {};  ///< for CommHookKind::power_sgd
  LocalSgdOptions local_sgd = {};  ///< for CommHookKind::post_local_sgd
  /// Broadcasts rank 0's buffers before each step's first forward in training: for models that read
  /// them there. See DistributedDataParallel::broadcast_buffers.
  bool broadcast_buffers_each_forward = false;
  bool sync_batch_norm = false;  ///< convert_sync_batchnorm over the group, at construction
  /// Above 0: the same bits on any number of ranks that divides it. Each global batch is cut into
  /// this many shards, and each rank computes the same number of them (for_each_shard). Gradients,
  /// losses and buffers are summed over shards in one order (ShardTree) instead of over ranks. Not
  /// with SyncBatchNorm, which would need all shards of a rank at once.
  std::int64_t shards = 0;
};
void declare(DeckTable& table, DdpOptions& options);

/// Throws InputError for bucket sizes below 1, and for options that cannot be combined with sums
/// over shards. With a model also if its layers cannot.
void validate(const DdpOptions& options);
void validate(const DdpOptions& options, nn::Module& model);
[[nodiscard]] std::unique_ptr<CommHook> make_comm_hook(const DdpOptions& options);

}  // namespace lockstep
