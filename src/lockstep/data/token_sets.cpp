#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>
#include <string_view>

#include <lockstep/base/error.hpp>
#include <lockstep/data/data_files.hpp>
#include <lockstep/data/data_sets.hpp>
#include <lockstep/data/token_dataset.hpp>

namespace lockstep {
namespace {

/// The folder of data.path.
std::filesystem::path token_folder(const DataOptions& options) {
  if (options.path.empty() || options.path.front() == "auto") {
    throw InputError(
        "data.kind = \"tokens\" needs data.path, a folder of token files or one of them, but it is "
        "\"auto\". Make them with `gpt tokens TEXT --output FOLDER`, and set it in the deck or "
        "with --set 'data.path=\"FOLDER\"'.");
  }
  const std::filesystem::path path = options.path.front();
  return std::filesystem::is_directory(path) ? path : path.parent_path();
}

/// What the deck, or else the folder, says of the tokenizer.
TokenizerChoice tokenizer_of(const DataOptions& options) {
  if (options.tokens.tokenizer.empty()) return read_tokenizer_choice(token_folder(options));
  return {options.tokens.tokenizer, options.class_names};
}

/// Those of all paths whose names say one of `words`; of a file that is named itself, it.
std::vector<std::filesystem::path> token_files_in(const std::vector<std::string>& paths,
                                                  std::span<const std::string_view> words) {
  std::vector<std::filesystem::path> files;
  for (const auto& path : files_of(paths)) {
    const auto found = token_files(path, words);
    files.insert(files.end(), found.begin(), found.end());
  }
  return files;
}

std::vector<std::filesystem::path> token_files_of(const DataOptions& options, Split split) {
  constexpr std::array<std::string_view, 1> train{"train"};
  constexpr std::array<std::string_view, 2> test{"test", "val"};
  const auto& test_path = options.files.test_path;
  const std::filesystem::path folder = token_folder(options);
  const bool is_train = split == Split::train;
  std::vector<std::filesystem::path> files;
  if (is_train) {
    files = token_files_in(options.path, train);
  } else if (!test_path.empty()) {
    files = token_files_in(test_path, test);
  } else if (std::filesystem::is_directory(options.path.front())) {
    files = token_files_in(options.path, test);
  }
  if (!files.empty()) return files;
  throw InputError(
      fmt::format("{} holds no token files of the {} set: their names end in .bin and say {}. {}",
                  fmt::join(options.path, ", "), is_train ? "training" : "test",
                  is_train ? "\"train\"" : "\"test\" or \"val\"",
                  is_train ? "Make them with `gpt tokens`, or name one file as data.path."
                           : "Name one with data.test_path, or set data.test_set = false."));
}

std::int64_t vocabulary_of(const DataOptions& options, const TokenizerChoice& choice,
                           const std::vector<std::filesystem::path>& files) {
  if (options.tokens.vocabulary > 0) return options.tokens.vocabulary;
  std::int64_t largest = 0;
  for (const auto& file : files) largest = std::max(largest, TokenFile(file).vocabulary());
  if (largest > 0) return largest;
  if (choice.kind.empty()) {
    throw InputError(fmt::format(
        "neither the token files of {} nor a tokenizer.json beside them say how many different "
        "tokens there may be. Set data.vocabulary; GPT-2's is 50257.",
        fmt::join(options.path, ", ")));
  }
  return make_tokenizer(choice, token_folder(options))->vocabulary();
}

std::shared_ptr<const Dataset> token_set(const DataOptions& options,
                                         const std::vector<std::filesystem::path>& files,
                                         std::int64_t limit, std::int64_t vocabulary) {
  return std::make_shared<const TokenDataset>(files, options.tokens.context, vocabulary, limit);
}

DataFacts facts_of_tokens(const TokenizerChoice& choice) {
  return {.input = "tokens",
          .target = "next token",
          .class_names = choice.characters,
          .tokenizer = choice.kind};
}

}  // namespace

Datasets token_sets(const DataOptions& options) {
  const TokenizerChoice choice = tokenizer_of(options);
  const auto files = token_files_of(options, Split::train);
  const std::int64_t vocabulary = vocabulary_of(options, choice, files);
  Datasets sets{.train = token_set(options, files, options.train_limit, vocabulary),
                .test = {},
                .augmentation = {},
                .facts = facts_of_tokens(choice)};
  if (options.test_set) {
    sets.test =
        token_set(options, token_files_of(options, Split::test), options.test_limit, vocabulary);
  }
  return sets;
}

Datasets token_test_set(const DataOptions& options) {
  return {.train = {},
          .test = token_set(options, token_files_of(options, Split::test), options.test_limit,
                            options.tokens.vocabulary),
          .augmentation = {},
          .facts = facts_of_tokens(tokenizer_of(options))};
}

std::unique_ptr<Tokenizer> make_tokenizer(const DataOptions& options) {
  const TokenizerChoice choice = tokenizer_of(options);
  if (choice.kind.empty()) {
    throw InputError(fmt::format(
        "the tokenizer of {} is not known: there is no tokenizer.json. Set data.tokenizer to bytes "
        "or gpt2, whose vocab.json and merges.txt then stand there.",
        fmt::join(options.path, ", ")));
  }
  return make_tokenizer(choice, choice.kind == "gpt2" ? token_folder(options) : "");
}

}  // namespace lockstep
