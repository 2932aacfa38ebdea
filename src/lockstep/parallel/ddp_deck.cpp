#include <lockstep/deck/deck.hpp>
#include <lockstep/parallel/distributed_data_parallel.hpp>

namespace lockstep {

void declare(DeckTable& table, DdpOptions& options) {
  table.key("first_bucket_bytes", options.buckets.first_bucket_bytes,
            {.doc = "size limit of the first gradient bucket", .unit = "bytes", .min = 1});
  table.key("bucket_bytes", options.buckets.bucket_bytes,
            {.doc = "size limit of the other gradient buckets", .unit = "bytes", .min = 1});
  table.choice(
      "comm_hook", options.comm_hook,
      {{"all_reduce", CommHookKind::all_reduce},
       {"fp16_compress", CommHookKind::fp16_compress},
       {"bf16_compress", CommHookKind::bf16_compress},
       {"power_sgd", CommHookKind::power_sgd},
       {"post_local_sgd", CommHookKind::post_local_sgd}},
      "communication hook: plain sum, rounded to 16 bits, low-rank approximation, or local SGD");
  PowerSgdOptions& power = options.power_sgd;
  table.key("power_sgd_rank", power.matrix_approximation_rank,
            {.doc = "power_sgd only: rank of the low-rank approximation", .min = 1});
  table.key("power_sgd_start_step", power.start_step,
            {.doc = "power_sgd only: steps with plain sums before compression starts",
             .unit = "steps",
             .min = 0});
  table.key(
      "power_sgd_min_compression_rate", power.min_compression_rate,
      {.doc =
           "power_sgd only: compress a gradient if that makes it smaller by more than this factor",
       .min = 0.0,
       .above_min = true});
  table.key("power_sgd_error_feedback", power.use_error_feedback,
            {.doc = "power_sgd only: add a step's compression error to the next gradient"});
  table.key("power_sgd_warm_start", power.warm_start,
            {.doc = "power_sgd only: start from the directions of the last step"});
  table.key("local_sgd_start_step", options.local_sgd.start_step,
            {.doc = "post_local_sgd only: steps with summed gradients before local steps start",
             .min = 0});
  table.key(
      "local_sgd_period", options.local_sgd.period,
      {.doc = "post_local_sgd only: local steps between averages of the parameters", .min = 1});
  table.key("broadcast_buffers_each_forward", options.broadcast_buffers_each_forward,
            {.doc = "broadcast rank 0's buffers before each step; false: before evaluation and "
                    "saving only"});
  table.key("sync_batch_norm", options.sync_batch_norm,
            {.doc = "BatchNorm over the samples of all ranks"});
}

}  // namespace lockstep
