#include <lockstep/data/tokens/token_dataset.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>

#include <lockstep/base/error.hpp>
#include <lockstep/base/for_each_entry.hpp>
#include <lockstep/data/files/looked_for.hpp>
#include <lockstep/data/tensor_dataset.hpp>

namespace lockstep {

namespace fs = std::filesystem;

namespace {

constexpr std::array<std::string_view, 2> training_words{"train", "training"};
constexpr std::array<std::string_view, 3> test_words{"test", "val", "validation"};

/// Whether a run of letters in `name` is one of `words`: "val" in "x_val_0.bin", not in
/// "retrieval.bin".
bool says_one_of(std::string_view name, std::span<const std::string_view> words) {
  const auto letter = [](char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; };
  for (std::size_t begin = 0; begin < name.size(); ++begin) {
    const std::size_t first = begin;
    while (begin < name.size() && letter(name[begin])) ++begin;
    if (std::ranges::find(words, name.substr(first, begin - first)) != words.end()) return true;
  }
  return false;
}

/// The distinct files of a batch's samples; each is checked once for changes. Allocates nothing
/// after the largest batch.
class FilesOfABatch {
 public:
  void begin(std::size_t files) {
    for (const std::size_t file : numbers_) is_noted_[file] = false;
    numbers_.clear();
    is_noted_.resize(std::max(files, is_noted_.size()));
  }
  void note(std::size_t file) {
    if (!is_noted_[file]) numbers_.push_back(file);
    is_noted_[file] = true;
  }
  [[nodiscard]] std::span<const std::size_t> numbers() const noexcept { return numbers_; }

 private:
  std::vector<std::size_t> numbers_;
  std::vector<bool> is_noted_;  // [file]
};

/// This thread's list, emptied.
FilesOfABatch& files_of_a_batch(std::size_t files) {
  thread_local FilesOfABatch noted;
  noted.begin(files);
  return noted;
}

}  // namespace

TokenDataset::TokenDataset(const std::vector<fs::path>& files, std::int64_t context,
                           std::int64_t vocabulary, std::int64_t limit)
    : context_(context), vocabulary_(vocabulary) {
  if (files.empty() || context < 1 || vocabulary < 1) {
    throw InputError(fmt::format(
        "a set of tokens needs files, a context and a vocabulary of 1 at least, not {}, {} and {}",
        files.size(), context, vocabulary));
  }
  for (const fs::path& path : files) {
    const TokenFile& file = files_.emplace_back(path);
    if (file.vocabulary() > vocabulary) {
      throw InputError(
          fmt::format("{} has {} different tokens, more than data.vocabulary = {}. Leave it out, "
                      "or use the files of one data set.",
                      path.string(), file.vocabulary(), vocabulary));
    }
    first_.push_back(size_);
    size_ += std::max<std::int64_t>(file.size() - 1, 0) / context;
  }
  if (size_ == 0) {
    throw InputError(fmt::format(
        "{}{} has {} tokens, but a window of data.context = {} takes {}. Choose a shorter context.",
        files.front().string(), files.size() > 1 ? ", as the other files," : "",
        files_.front().size(), context, context + 1));
  }
  if (limit > 0) size_ = std::min(size_, limit);
}

void TokenDataset::load(std::span<const std::int64_t> indices, Batch& batch) const {
  expect_samples(indices, size_);
  batch.reset(indices);
  auto* input = static_cast<std::int64_t*>(batch.inputs().data());
  auto* target = static_cast<std::int64_t*>(batch.targets().data());
  thread_local std::vector<std::uint16_t> window;  // grows to this thread's longest context
  window.resize(std::max(window.size(), static_cast<std::size_t>(context_) + 1));
  FilesOfABatch& read = files_of_a_batch(files_.size());
  for (const std::int64_t index : indices) {
    const auto of = std::ranges::upper_bound(first_, index) - first_.begin() - 1;
    const TokenFile& file = files_[static_cast<std::size_t>(of)];
    const std::int64_t begin = (index - first_[static_cast<std::size_t>(of)]) * context_;
    const auto tokens = std::span(window).first(static_cast<std::size_t>(context_) + 1);
    file.read(begin, tokens);
    read.note(static_cast<std::size_t>(of));
    std::copy(tokens.begin(), tokens.end() - 1, input);
    std::copy(tokens.begin() + 1, tokens.end(), target);
    const auto largest = std::ranges::max_element(tokens);
    if (*largest >= vocabulary_) {
      file.expect_unchanged();
      throw InputError(fmt::format(
          "{}: token {} of the file is {}, outside the vocabulary of {}. Is this "
          "another tokenizer's file, or a damaged one?",
          file.path().string(), begin + (largest - tokens.begin()), *largest, vocabulary_));
    }
    input += context_;
    target += context_;
  }
  for (const std::size_t file : read.numbers()) files_[file].expect_unchanged();
}

std::vector<fs::path> token_files(const fs::path& path, Split split) {
  if (!fs::is_directory(path)) {
    if (fs::exists(path)) return {path};
    throw InputError(
        fmt::format("there is no {}, named in data.path or data.test_path. Make token files "
                    "with `gpt tokens TEXT --output FOLDER`.",
                    detail::looked_for(path)));
  }
  std::vector<fs::path> files;
  const auto take = [&](const fs::directory_entry& entry) {
    const std::string name = entry.path().filename().string();
    if (!name.ends_with(".bin")) return;
    const bool train = says_one_of(name, training_words), test = says_one_of(name, test_words);
    if (train && test) {
      throw InputError(
          fmt::format("the name of {} has words of both the training set and the test set. Rename "
                      "it, or name the files themselves in data.path and data.test_path.",
                      entry.path().string()));
    }
    if (split == Split::train ? train : test) files.push_back(entry.path());
  };
  std::error_code error;
  for_each_entry(path, take, error);
  if (error) {
    throw InputError(
        fmt::format("the folder of tokens {} cannot be read: {}. Check data.path and "
                    "data.test_path.",
                    detail::looked_for(path), error.message()));
  }
  std::ranges::sort(files);
  return files;
}

}  // namespace lockstep
