#pragma once
// The commands of the utility. Each prints to stdout, returns the exit code, and throws
// lockstep::Error for errors that the user can mend. Commands that start MPI print their errors
// themselves. Only main.cpp knows the grammar of the command line.
#include <string>
#include <vector>

#include <lockstep/base/error.hpp>

#include "elastic/options.hpp"
#include "report/options.hpp"
#include "scaling/options.hpp"
#include "sweep/options.hpp"
#include "watch/options.hpp"

namespace lockstep::utility {

/// Checks the launch: cores, memory and libraries of each rank. Returns bad_input if a run could
/// not start. With a deck, also checks that all ranks see the same run folder and that its
/// gradients fit into shared memory. Starts MPI; collective.
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

/// Reads a deck and prints all its settings.
ExitCode check_deck(const std::string& file, const std::vector<std::string>& overrides);

/// Prints every table and key, in Markdown.
ExitCode print_deck_reference();

/// Prints a starting deck for `program` (classify, regress or gpt): every key of its kinds, with
/// its meaning. `kinds` replaces the program's default kinds: {{"model", "mlp"}}.
using ChosenKinds = std::vector<std::pair<std::string, std::string>>;
ExitCode print_new_deck(const std::string& program, const ChosenKinds& kinds);

/// Prints the deck's model, layer by layer, and the memory of a training step.
ExitCode describe_model(const std::string& file, const std::vector<std::string>& overrides);
/// Prints memory and traffic of each rank of a mesh, "dp=2,tp=4"
/// (train/report/mesh_report.hpp).
ExitCode describe_mesh(const std::string& file, const std::vector<std::string>& overrides,
                       const std::string& mesh, int ranks_per_node);

/// Prints the contents and origin of checkpoints; compares every byte with its checksum.
ExitCode inspect_checkpoints(const std::vector<std::string>& files);
ExitCode verify_checkpoints(const std::vector<std::string>& files);
/// Returns exit code 1 if they differ.
ExitCode compare(const std::string& first, const std::string& second, double tolerance);
/// Prints the newest intact checkpoint of a run folder or of a folder of checkpoints. Returns exit
/// code 4 if there is none.
ExitCode print_latest(const std::string& folder);
/// `format` is "h5", "safetensors", or empty: by the ending of the output's name. With
/// `hugging_face` names and layouts are those of Hugging Face's GPT2LMHeadModel.
ExitCode export_weights(const std::string& checkpoint, const std::string& output,
                        const std::string& format, bool hugging_face);
/// Makes a checkpoint from weights. `deck` may be empty.
ExitCode import_weights(const std::string& weights, const std::string& output,
                        const std::string& deck);

/// Prints the flight recorders' rings in a run folder, or in any folder, and the verdict.
ExitCode show_flight(const std::string& dir, bool json);

/// Writes the lines of JSON of a run's metrics, or of another .jsonl file, as CSV. `output` empty:
/// to stdout.
ExitCode export_csv(const std::string& source, const std::string& output);

/// How fast this machine is for all ranks together: collectives, memory, products; as JSON. Starts
/// MPI; collective.
struct BenchOptions {
  double seconds = 8;  ///< about so long
  std::string output;  ///< a file; empty: stdout
};
ExitCode bench(int argc, char** argv, const BenchOptions& options);

/// Measures a deck on several numbers of ranks, or compares two such studies. Starts no MPI.
ExitCode scale(const scaling::Options& options);

/// Trains a deck with many settings, and ranks them. Starts no MPI.
ExitCode sweep(const sweep::Options& options);

/// Writes a page about runs and scaling studies. Starts no MPI.
ExitCode report(const report::Options& options);

/// Shows a run while it goes on. Returns 0 once it is complete, 75 if it was stopped on request, 1
/// if it ended otherwise. Starts no MPI.
ExitCode watch(const watch::Options& options);

/// Starts and watches a training. Restarts it on the remaining members after a failure, and on more
/// when they come. Starts no MPI.
ExitCode supervise(const elastic::Options& options);

}  // namespace lockstep::utility
