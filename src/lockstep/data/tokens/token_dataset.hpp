#pragma once
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include <lockstep/data/dataset.hpp>
#include <lockstep/data/tokens/token_file.hpp>

namespace lockstep {

/// Windows of token files for a language model: sample i of a file is its tokens [i C, i C + C)
/// with context C, the target of each the token that follows, so that an epoch predicts every
/// token once, but for each file's first and an incomplete window at its end. No window goes over
/// the end of a file; a file that is too short for one has none.
class TokenDataset final : public Dataset {
 public:
  /// The first `limit` windows (0: all). Throws InputError for no files, none that has
  /// a window, and files that say another vocabulary than `vocabulary`, which is at least theirs.
  TokenDataset(const std::vector<std::filesystem::path>& files, std::int64_t context,
               std::int64_t vocabulary, std::int64_t limit = 0);

  [[nodiscard]] std::int64_t size() const noexcept override { return size_; }
  [[nodiscard]] Shape sample_shape() const override { return {context_}; }
  [[nodiscard]] DType input_dtype() const noexcept override { return DType::i64; }
  [[nodiscard]] std::int64_t classes() const noexcept override { return vocabulary_; }
  [[nodiscard]] Shape target_shape() const override { return {context_}; }
  /// Throws InputError, naming file and place, for a token outside the vocabulary.
  void load(std::span<const std::int64_t> indices, Batch& batch) const override;

 private:
  std::vector<TokenFile> files_;
  std::vector<std::int64_t> first_;  ///< [file]: number of its first window
  std::int64_t context_, vocabulary_, size_ = 0;
};

/// The token files of a set that `path` names: itself, or, where it is a folder, the *.bin in it,
/// in the order of their names, whose names have a word of that set: "train"; "val" or "test"; not
/// within a longer one. None if there are none. Throws InputError if there is no `path`, or a name
/// has words of both sets.
[[nodiscard]] std::vector<std::filesystem::path> token_files(const std::filesystem::path& path,
                                                             Split split);

}  // namespace lockstep
