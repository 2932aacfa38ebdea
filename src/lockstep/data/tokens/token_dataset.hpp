#pragma once
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include <lockstep/data/dataset.hpp>
#include <lockstep/data/tokens/token_file.hpp>

namespace lockstep {

/// Windows of token files for a language model. With context C sample i of a file is its tokens [i
/// C, i C + C); the target of each token is its successor. So an epoch predicts every token once,
/// except each file's first and an incomplete window at its end. No window crosses the end of a
/// file; a file that is too short has none.
class TokenDataset final : public Dataset {
 public:
  /// The first `limit` windows (0: all). Throws InputError if there are no files, if none has a
  /// window, or if a file's vocabulary differs from `vocabulary`, which is at least theirs.
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

/// The token files of a set in `path`: `path` itself, or, for a folder, its *.bin files, sorted by
/// name, whose names contain a word of that set ("train"; "val" or "test"), not within a longer
/// word. May be empty. Throws InputError if `path` does not exist, or a name has words of both
/// sets.
[[nodiscard]] std::vector<std::filesystem::path> token_files(const std::filesystem::path& path,
                                                             Split split);

}  // namespace lockstep
