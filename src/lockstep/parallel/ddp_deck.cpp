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
                {"post_local_sgd", CommHookKind::post_local_sgd}},
               "how gradients travel: as they are, rounded to 16 bits (half of the bytes), or for "
               "local_sgd_start_step steps only");
  table.key("local_sgd_start_step", options.local_sgd.start_step,
            {.doc = "post_local_sgd: steps until each rank follows its own gradients", .min = 0});
  table.key("local_sgd_period", options.local_sgd.period,
            {.doc = "post_local_sgd: from then on parameters are averaged every that many steps",
             .min = 1});
}

}  // namespace lockstep
