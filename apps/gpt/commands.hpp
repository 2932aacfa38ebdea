#pragma once
// What `gpt` does beside training.
#include <cstdint>
#include <string>
#include <vector>

#include <lockstep/base/error.hpp>

namespace lockstep::gpt {

struct TokensOptions {
  std::vector<std::string> texts;  ///< files, each a text of its own
  std::string output;              ///< folder
  std::string tokenizer = "characters";
  std::string vocabulary;  ///< gpt2: folder of vocab.json and merges.txt
  double test_fraction = 0.1;
  std::int64_t shard_tokens = 100'000'000;
};

/// Text files to a folder of token files that data.path names.
ExitCode make_tokens(const TokensOptions& options);

struct SampleOptions {
  std::string source;  ///< a run folder, or a checkpoint
  std::string prompt;
  std::string tokenizer;  ///< folder; empty: where the run's data are
  std::int64_t tokens = 200;
  std::int64_t samples = 1;
  double temperature = 1.0;
  std::int64_t top_k = 0;
  double top_p = 1.0;
  std::uint64_t seed = 1234;
};

/// Prints texts of a trained model; the ranks of the job share out the samples.
ExitCode sample(int argc, char** argv, const SampleOptions& options);

}  // namespace lockstep::gpt
