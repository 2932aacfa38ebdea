#include <lockstep/comm/group_options.hpp>
#include <lockstep/deck/deck.hpp>

namespace lockstep {

void declare(DeckTable& table, GroupOptions& options) {
  double seconds = std::chrono::duration<double>(options.timeout).count();
  table.key("timeout", seconds,
            {.doc = "how long a rank waits for the others before it gives up",
             .unit = "s",
             .min = 0.001,
             .max = 1e6});
  table.choice("contract", options.contract,
               {{"off", Contract::off},
                {"hash", Contract::hash},
                {"full", Contract::full},
                {"late", Contract::late}},
               "what is compared between ranks before any of them reads a collective's result: "
               "nothing; operation, dtype, size, reduction and root; or shapes too. \"late\" is "
               "\"hash\", but what NCCL carries out is compared while it runs");
  table.choice("progress", options.progress,
               {{"poll", Progress::poll}, {"thread", Progress::thread}},
               "what moves communication on during backward: calls between layers, or a thread");
  table.key("shared_memory", options.shared_memory,
            {.doc = "ranks of one machine communicate through shared memory instead of MPI"});
  table.key("pretended_nodes", options.pretended_nodes,
            {.doc = "sizes of the nodes that ranks are taken for, in rank order, to try on one "
                    "machine what happens between several: [2, 2] on 4 ranks; empty: nodes are "
                    "machines",
             .min = 1,
             .max = 1e6});
  table.key("cuda_aware_mpi", options.cuda_aware_mpi,
            {.doc = "MPI is given addresses on GPUs, where nothing is reduced; for an MPI that is "
                    "built for that"});
  options.timeout = std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1e3));
}

void declare(DeckTable& table, FlightOptions& options) {
  table.key("dir", options.dir,
            {.doc = "folder of the node itself, for the ring of each rank's newest operations; "
                    "empty: $TMPDIR, else /dev/shm"});
}

}  // namespace lockstep
