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
                {"bf16_compress", CommHookKind::bf16_compress}},
               "how gradients travel: as they are, or rounded to 16 bits, half of the bytes");
  table.key("sync_batch_norm", options.sync_batch_norm,
            {.doc = "BatchNorm takes its statistics from the samples of all ranks, not from each "
                    "rank's own"});
}

}  // namespace lockstep
