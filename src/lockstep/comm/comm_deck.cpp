#include <lockstep/comm/group_options.hpp>
#include <lockstep/deck/deck.hpp>

namespace lockstep {

void declare(DeckTable& table, GroupOptions& options) {
  double seconds = std::chrono::duration<double>(options.timeout).count();
  table.key("timeout", seconds,
            {.doc = "how long a rank waits for the others before the operation fails",
             .unit = "s",
             .min = 0.001,
             .max = 1e6});
  table.choice("contract", options.contract,
               {{"off", Contract::off},
                {"hash", Contract::hash},
                {"full", Contract::full},
                {"late", Contract::late}},
               "fields of a collective that ranks compare before any of them reads its result: "
               "none; operation, dtype, size, reduction and root (hash); or shapes too. \"late\" "
               "is \"hash\", but NCCL's operations are compared while they run");
  table.choice(
      "progress", options.progress, {{"poll", Progress::poll}, {"thread", Progress::thread}},
      "progress of communication during backward: by calls between layers, or by a thread");
  table.key("shared_memory", options.shared_memory,
            {.doc = "ranks of one machine communicate through shared memory instead of MPI"});
  table.key("pretended_nodes", options.pretended_nodes,
            {.doc = "sizes of pretended nodes, in rank order, to try multi-node algorithms on one "
                    "machine: [2, 2] on 4 ranks; empty: nodes are machines",
             .min = 1,
             .max = 1e6});
  table.key(
      "cuda_aware_mpi", options.cuda_aware_mpi,
      {.doc =
           "pass GPU addresses to MPI in operations without a reduction; needs a GPU-aware MPI"});
  options.timeout = std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1e3));
}

void declare(DeckTable& table, FlightOptions& options) {
  table.key("dir", options.dir,
            {.doc = "node-local folder for each rank's ring file of its newest operations; empty: "
                    "$TMPDIR, else /dev/shm"});
}

}  // namespace lockstep
