#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <lockstep/data/dataset.hpp>
#include <lockstep/data/tokens/tokenizer.hpp>

namespace lockstep {

class DeckTable;
struct DataOptions;

/// Token files of a language model, and how they are read.
struct TokenOptions {
  std::int64_t context = 256;   ///< tokens per window
  std::int64_t vocabulary = 0;  ///< 0: from the files or their tokenizer
  /// TokenizerChoice::kind; empty: from tokenizer.json beside the files. Its characters are
  /// DataOptions::class_names.
  std::string tokenizer;
  std::vector<std::string> test_path;  ///< files of the test set; empty: those of data.path

  [[nodiscard]] Datasets make(const DataOptions& all, TargetKind kind, Sets wanted) const;
  [[nodiscard]] static TargetKind targets(const DataOptions&) { return TargetKind::tokens; }
  void note(const Datasets& found);
};
void declare(DeckTable& table, TokenOptions& options);

/// The tokenizer of the token files in data.path. Throws InputError if it is unknown or its files
/// are missing, and for other kinds of data.
[[nodiscard]] std::unique_ptr<Tokenizer> make_tokenizer(const DataOptions& options);

}  // namespace lockstep
