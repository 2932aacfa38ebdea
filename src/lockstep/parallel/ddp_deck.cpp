#include <lockstep/deck/deck.hpp>
#include <lockstep/parallel/distributed_data_parallel.hpp>

namespace lockstep {

void declare(DeckTable& table, DdpOptions& options) {
  table.key("first_bucket_bytes", options.buckets.first_bucket_bytes,
            {.doc = "limit of the first gradient bucket", .unit = "bytes", .min = 1});
  table.key("bucket_bytes", options.buckets.bucket_bytes,
            {.doc = "limit of the other gradient buckets", .unit = "bytes", .min = 1});
  table.choice("comm_hook", options.comm_hook,
               {{"all_reduce", CommHookKind::all_reduce},
                {"fp16_compress", CommHookKind::fp16_compress},
                {"bf16_compress", CommHookKind::bf16_compress},
                {"power_sgd", CommHookKind::power_sgd},
                {"post_local_sgd", CommHookKind::post_local_sgd}},
               "how gradients are sent: as they are, rounded to 16 bits, as products of matrices "
               "of a low rank, or for local_sgd_start_step steps only");
  PowerSgdOptions& power = options.power_sgd;
  table.key("power_sgd_rank", power.matrix_approximation_rank,
            {.doc = "rank of what takes a gradient's place", .min = 1});
  table.key("power_sgd_start_step", power.start_step,
            {.doc = "gradients are sent as they are before", .unit = "steps", .min = 0});
  table.key(
      "power_sgd_min_compression_rate", power.min_compression_rate,
      {.doc = "a gradient is compressed if its elements are more than so many times those sent",
       .min = 0.0,
       .above_min = true});
  table.key("power_sgd_error_feedback", power.use_error_feedback,
            {.doc = "what a step leaves out is added to the next one's gradient"});
  table.key("power_sgd_warm_start", power.warm_start,
            {.doc = "a step starts from the directions that the one before has found"});
  table.key("local_sgd_start_step", options.local_sgd.start_step,
            {.doc = "post_local_sgd: steps until each rank follows its own gradients", .min = 0});
  table.key("local_sgd_period", options.local_sgd.period,
            {.doc = "post_local_sgd: from then on parameters are averaged every that many steps",
             .min = 1});
  table.key("broadcast_buffers_each_forward", options.broadcast_buffers_each_forward,
            {.doc = "rank 0's buffers on every rank before each step, for models that read them in "
                    "training; otherwise before evaluation and saving"});
  table.key("sync_batch_norm", options.sync_batch_norm,
            {.doc = "BatchNorm takes its statistics from the samples of all ranks, not from each "
                    "rank's own"});
}

}  // namespace lockstep
