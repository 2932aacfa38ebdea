#pragma once
// What the utility's subcommands do. Each prints to stdout, returns the exit code, and throws
// lockstep::Error for what the user has to mend. main.cpp alone knows the command line's grammar.
#include <string>
#include <vector>

#include <lockstep/base/error.hpp>

namespace lockstep::utility {

/// What the launch gave each rank, and what is wrong with it: bad_input if that would keep a run
/// from starting. With a deck, also whether its run folder is shared and its gradients fit into
/// shared memory. Starts MPI; collective.
struct DoctorOptions {
  std::string deck;  ///< may be empty
  std::vector<std::string> overrides;
  bool json = false;
};
ExitCode doctor(int argc, char** argv, const DoctorOptions& options);

/// Reads a deck and prints it resolved.
ExitCode check_deck(const std::string& file, const std::vector<std::string>& overrides);

/// Every table and key, in Markdown.
ExitCode print_deck_reference();

/// The deck's model, layer by layer, and the memory of a training step.
ExitCode describe_model(const std::string& file, const std::vector<std::string>& overrides);

/// What checkpoints hold and who wrote them; every byte compared with its checksum.
ExitCode inspect_checkpoints(const std::vector<std::string>& files);
ExitCode verify_checkpoints(const std::vector<std::string>& files);

/// The rings of flight recorders in a run folder, or in any other, and the verdict on them.
ExitCode show_flight(const std::string& dir, bool json);

}  // namespace lockstep::utility
