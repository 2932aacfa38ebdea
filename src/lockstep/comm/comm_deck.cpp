#include <lockstep/comm/group_options.hpp>
#include <lockstep/deck/deck.hpp>

namespace lockstep {

void declare(DeckTable& table, GroupOptions& options) {
  double seconds = std::chrono::duration<double>(options.timeout).count();
  table.key(
      "timeout", seconds,
      {.doc = "deadline of every wait for other ranks", .unit = "s", .min = 0.001, .max = 1e6});
  table.choice("contract", options.contract,
               {{"off", Contract::off},
                {"hash", Contract::hash},
                {"full", Contract::full},
                {"late", Contract::late}},
               "checks that ranks make equal calls: hash: operation, dtype, size, reduction and "
               "root; full: shapes too; late: hash, NCCL calls while they run");
  table.choice("progress", options.progress,
               {{"poll", Progress::poll}, {"thread", Progress::thread}},
               "what progresses communication during backward: calls between layers, or a thread");
  table.key("shared_memory", options.shared_memory,
            {.doc = "ranks of one machine communicate through shared memory"});
  table.key("pretended_nodes", options.pretended_nodes,
            {.doc = "for tests: treat ranks as nodes of these sizes, e.g. [2, 2] on 4 ranks; "
                    "empty: nodes are machines",
             .min = 1,
             .max = 1e6});
  table.key(
      "cuda_aware_mpi", options.cuda_aware_mpi,
      {.doc = "CUDA-aware MPI only: pass GPU addresses to MPI for transfers that reduce nothing"});
  options.timeout = std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1e3));
}

void declare(DeckTable& table, FlightOptions& options) {
  table.key("dir", options.dir,
            {.doc = "local folder of the flight recorder, not on a network file system; empty: "
                    "$TMPDIR, else /dev/shm"});
}

}  // namespace lockstep
