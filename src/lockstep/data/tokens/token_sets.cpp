#include <fmt/format.h>

#include <algorithm>

#include <lockstep/base/error.hpp>
#include <lockstep/data/files/data_files.hpp>
#include <lockstep/data/tokens/token_dataset.hpp>
#include <lockstep/data/tokens/token_sets.hpp>

namespace lockstep {
namespace {

/// data.path: folders of token files, or token files.
std::vector<std::filesystem::path> places_of(const DataOptions& options) {
  if (options.path.empty() || options.path.front() == "auto") {
    throw InputError(
        "data.kind = \"tokens\" needs data.path, a folder of token files or one of them, but it is "
        "\"auto\". Make them with `gpt tokens TEXT --output FOLDER`, and set it in the deck or "
        "with --set 'data.path=\"FOLDER\"'.");
  }
  return files_of(options.path);
}

/// The folder of the first one, which holds tokenizer.json.
std::filesystem::path token_folder(const DataOptions& options) {
  const std::filesystem::path path = places_of(options).front();
  return std::filesystem::is_directory(path) ? path : path.parent_path();
}

/// The tokenizer given in the deck, or else in the folder.
TokenizerChoice tokenizer_of(const TokenOptions& tokens, const DataOptions& all) {
  if (tokens.tokenizer.empty()) return read_tokenizer_choice(token_folder(all));
  return {tokens.tokenizer, all.class_names};
}

[[noreturn]] void refuse_places(const std::vector<std::filesystem::path>& places, Split split,
                                bool has_test_path) {
  std::string all;
  for (const auto& place : places) all += (all.empty() ? "" : ", ") + place.string();
  if (split == Split::train) {
    throw InputError(fmt::format(
        "{} holds no token files of the training set: their names end in .bin and have the word "
        "\"train\". Make them with `gpt tokens`, or name one file as data.path.",
        all));
  }
  throw InputError(fmt::format(
      "{} holds no token files of the test set: their names end in .bin and have the word "
      "\"test\" or \"val\". {}",
      all,
      has_test_path ? "Rename them, or name the files themselves in data.test_path."
                    : "Name one with data.test_path, or set data.test_set = false."));
}

std::vector<std::filesystem::path> token_files_of(const DataOptions& options, Split split,
                                                  const std::vector<std::string>& test_path = {}) {
  const bool has_test_path = split == Split::test && !test_path.empty();
  const auto places = has_test_path ? files_of(test_path) : places_of(options);
  std::vector<std::filesystem::path> files;
  for (const auto& place : places) {
    // A file named in data.path itself belongs to the training set.
    if (split == Split::test && !has_test_path && !std::filesystem::is_directory(place)) continue;
    const auto found = token_files(place, split);
    files.insert(files.end(), found.begin(), found.end());
  }
  if (files.empty()) refuse_places(places, split, has_test_path);
  return files;
}

/// From the files or their tokenizer.
std::int64_t vocabulary_of(const DataOptions& options, const TokenizerChoice& choice,
                           const std::vector<std::filesystem::path>& files) {
  std::int64_t largest = 0;
  for (const auto& file : files) largest = std::max(largest, TokenFile(file).vocabulary());
  if (largest > 0) return largest;
  if (choice.kind.empty()) {
    throw InputError(
        fmt::format("neither the token files of {} nor a tokenizer.json beside them give the size "
                    "of the vocabulary. Set data.vocabulary; GPT-2's is 50257.",
                    fmt::join(options.path, ", ")));
  }
  return make_tokenizer(choice, token_folder(options))->vocabulary();
}

DataFacts facts_of_tokens(const TokenizerChoice& choice) {
  return {.input = "tokens",
          .target = "next token",
          .class_names = choice.characters,
          .tokenizer = choice.kind};
}

}  // namespace

Datasets TokenOptions::make(const DataOptions& all, TargetKind kind, Sets wanted) const {
  if (kind != TargetKind::tokens) {
    throw InputError(
        "data.kind = \"tokens\" is for language models, which the program gpt trains. Use gpt, or "
        "other data.");
  }
  const TokenizerChoice choice = tokenizer_of(*this, all);
  const bool both = wanted == Sets::train_and_test;
  std::int64_t tokens = vocabulary;
  const auto token_set = [&](const std::vector<std::filesystem::path>& files, std::int64_t limit) {
    return std::make_shared<const TokenDataset>(files, context, tokens, limit);
  };
  Datasets sets{.train = {}, .test = {}, .augmentation = {}, .facts = facts_of_tokens(choice)};
  std::vector<std::filesystem::path> train_files;
  if (both) {
    train_files = token_files_of(all, Split::train);
    if (tokens == 0) tokens = vocabulary_of(all, choice, train_files);
    sets.train = token_set(train_files, all.train_limit);
  }
  if (!both || all.test_set) {
    const auto test_files = token_files_of(all, Split::test, test_path);
    expect_no_common_file(train_files, test_files);
    sets.test = token_set(test_files, all.test_limit);
  }
  return sets;
}

void TokenOptions::note(const Datasets& found) {
  vocabulary = found.train->classes();
  tokenizer = found.facts.tokenizer;
}

void declare(DeckTable& table, TokenOptions& tokens) {
  table.key("context", tokens.context,
            {.doc = "tokens of a sample", .unit = "tokens", .min = 1.0, .max = 1048576.0});
  table.key("vocabulary", tokens.vocabulary,
            {.doc = "number of distinct tokens; 0: as the files say", .min = 0.0, .max = 65536.0});
  table.key("tokenizer", tokens.tokenizer,
            {.doc = "decodes tokens to text; empty: as tokenizer.json beside the files says",
             .choices = {"", "characters", "bytes", "gpt2"}});
  declare_test_path(table, tokens.test_path);
}

std::unique_ptr<Tokenizer> make_tokenizer(const DataOptions& options) {
  const auto* tokens = options.kind.get_if<TokenOptions>();
  if (!tokens) throw InputError("only data.kind = \"tokens\" has a tokenizer.");
  const TokenizerChoice choice = tokenizer_of(*tokens, options);
  if (choice.kind.empty()) {
    throw InputError(fmt::format(
        "the tokenizer of {} is unknown: there is no tokenizer.json. Set data.tokenizer to bytes, "
        "or to gpt2 with its vocab.json and merges.txt in that folder.",
        fmt::join(options.path, ", ")));
  }
  return make_tokenizer(choice, choice.kind == "gpt2" ? token_folder(options) : "");
}

}  // namespace lockstep
