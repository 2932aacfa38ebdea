#pragma once
// What the utility's subcommands do. Each prints to stdout, returns the exit code, and throws
// lockstep::Error for what the user has to mend; those that start MPI have said it themselves.
// main.cpp alone knows the command line's grammar.
#include <string>
#include <vector>

#include <lockstep/base/error.hpp>

#include "elastic/options.hpp"
#include "scaling/options.hpp"

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

/// Predicts the samples of a data set into a file (train/prediction.hpp). Starts MPI; collective.
struct PredictOptions {
  std::string source;           ///< run folder or checkpoint
  std::string input, output;    ///< FILE or FILE:NAME
  bool allow_external = false;  ///< data.allow_external of `input`
};
ExitCode predict(int argc, char** argv, const PredictOptions& options);

/// Loss and metrics of a checkpoint on other data. Starts MPI; collective.
struct EvaluateOptions {
  std::string source;  ///< run folder or checkpoint
  std::string data;    ///< file or folder; empty: the deck's own test set
  std::vector<std::string> overrides;
  bool json = false;
};
ExitCode evaluate(int argc, char** argv, const EvaluateOptions& options);

/// Reads a deck and prints it resolved.
ExitCode check_deck(const std::string& file, const std::vector<std::string>& overrides);

/// Every table and key, in Markdown.
ExitCode print_deck_reference();

/// A deck of `program`, classify, regress or gpt, to begin with: every key that its kinds have,
/// with its meaning. `kinds` are what the program's own are replaced by: {{"model", "mlp"}}.
using ChosenKinds = std::vector<std::pair<std::string, std::string>>;
ExitCode print_new_deck(const std::string& program, const ChosenKinds& kinds);

/// The deck's model, layer by layer, and the memory of a training step.
ExitCode describe_model(const std::string& file, const std::vector<std::string>& overrides);

/// What checkpoints hold and who wrote them; every byte compared with its checksum.
ExitCode inspect_checkpoints(const std::vector<std::string>& files);
ExitCode verify_checkpoints(const std::vector<std::string>& files);
/// Exit code 1 if they differ.
ExitCode compare(const std::string& first, const std::string& second, double tolerance);
/// The newest checkpoint of a run folder, or of a folder of checkpoints, that verifies; 4 if none.
ExitCode print_latest(const std::string& folder);
/// `format` is "h5", "safetensors", or empty: as the output's name ends. With `hugging_face` under
/// the names and layouts of its GPT2LMHeadModel.
ExitCode export_weights(const std::string& checkpoint, const std::string& output,
                        const std::string& format, bool hugging_face);
/// Makes a checkpoint of weights. `deck` may be empty.
ExitCode import_weights(const std::string& weights, const std::string& output,
                        const std::string& deck);

/// The rings of flight recorders in a run folder, or in any other, and the verdict on them.
ExitCode show_flight(const std::string& dir, bool json);

/// How fast this machine is for all ranks together: collectives, memory, products; as JSON. Starts
/// MPI; collective.
struct BenchOptions {
  double seconds = 8;  ///< about so long
  std::string output;  ///< a file; empty: stdout
};
ExitCode bench(int argc, char** argv, const BenchOptions& options);

/// Measures a deck on several numbers of ranks, or compares two such studies. Starts no MPI.
ExitCode scale(const scaling::Options& options);

/// Starts a training, watches it, and starts it again on what is left or has come. Starts no MPI.
ExitCode supervise(const elastic::Options& options);

}  // namespace lockstep::utility
