#include <cstdio>

#include <lockstep/base/error.hpp>
#include <lockstep/comm/agreement.hpp>
#include <lockstep/comm/mpi_group.hpp>
#include <lockstep/train/run/memory_limit.hpp>
#include <lockstep/train/verbs.hpp>

#include "commands.hpp"
#include "known_deck.hpp"

namespace lockstep::utility {

ExitCode doctor(int argc, char** argv, const DoctorOptions& options) {
  train::expect_file_size();
  const MpiSession mpi(argc, argv);
  const auto group = make_mpi_group(MPI_COMM_WORLD);
  ExitCode code = ExitCode::done;
  try {
    train::DeckFacts facts;
    agree(*group, [&] {
      if (options.deck.empty()) return;
      const train::Assignment deck = read_known_deck(options.deck, options.overrides);
      facts = train::facts_of(*deck.task, deck.plan, deck.hash);
    });
    code = train::doctor(*group, facts, options.json);
  } catch (const AgreedError& error) {
    if (group->rank() == 0) std::fprintf(stderr, "lockstep: %s\n", shortened(error.what()).c_str());
    code = error.exit_code();
  }
  group->close();
  return code;
}

}  // namespace lockstep::utility
