#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include <lockstep/base/for_each_entry.hpp>
#include <lockstep/data/tokens/token_file.hpp>
#include <lockstep/data/tokens/tokenizer.hpp>
#include <lockstep/io/atomic_file.hpp>
#include <lockstep/io/file.hpp>
#include <lockstep/io/folder.hpp>
#include <lockstep/train/report/standard_output.hpp>

#include "commands.hpp"

namespace lockstep::gpt {
namespace {

namespace fs = std::filesystem;

File open_text(const std::string& path) {
  try {
    return File::open_for_reading(path);
  } catch (const FileError& error) {
    throw InputError(error.what());
  }
}

std::string read_text(const std::string& path) {
  const File file = open_text(path);
  std::string text(static_cast<std::size_t>(file.size()), '\0');
  file.read_at(0, text.data(), std::ssize(text));
  if (text.empty()) throw InputError(fmt::format("{} is empty", path));
  return text;
}

/// Start of the test part of a text; never inside a character.
std::size_t test_begins(const std::string& text, double fraction) {
  const auto size = static_cast<double>(text.size());
  auto at = static_cast<std::size_t>(std::llround(size * (1.0 - fraction)));
  while (at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0U) == 0x80U) ++at;
  return at;
}

/// Writes tokens into the numbered files of one set.
class Shards {
 public:
  Shards(fs::path folder, std::string set, std::int64_t size, std::int64_t vocabulary)
      : folder_(std::move(folder)),
        set_(std::move(set)),
        size_(static_cast<std::size_t>(size)),
        vocabulary_(vocabulary) {}

  void add(const std::vector<std::uint16_t>& tokens) {
    pending_.insert(pending_.end(), tokens.begin(), tokens.end());
    std::size_t begin = 0;
    for (; pending_.size() - begin >= size_; begin += size_) write(begin, size_);
    pending_.erase(pending_.begin(), pending_.begin() + static_cast<std::ptrdiff_t>(begin));
  }
  /// Writes the rest.
  void finish() {
    if (!pending_.empty()) write(0, pending_.size());
    pending_.clear();
  }
  [[nodiscard]] std::int64_t tokens() const { return written_; }

 private:
  void write(std::size_t begin, std::size_t count) {
    write_token_file(folder_ / fmt::format("{}_{:06}.bin", set_, files_++),
                     std::span(pending_).subspan(begin, count), vocabulary_);
    written_ += static_cast<std::int64_t>(count);
  }

  fs::path folder_;
  std::string set_;
  std::size_t size_;
  std::int64_t vocabulary_;
  std::vector<std::uint16_t> pending_;
  std::int64_t files_ = 0, written_ = 0;
};

/// Token files of an earlier text would be mixed with this one.
void expect_no_token_files(const fs::path& folder) {
  const auto refuse = [&](const fs::directory_entry& entry) {
    if (entry.path().extension() != ".bin") return;
    throw InputError(fmt::format(
        "{} already holds token files, for example {}: name another folder, or remove them.",
        folder.string(), entry.path().filename().string()));
  };
  std::error_code error;
  for_each_entry(folder, refuse, error);
  if (!error || error == std::errc::no_such_file_or_directory) return;
  throw InputError(fmt::format("the folder {} cannot be read: {}. Name another with --output.",
                               folder.string(), error.message()));
}

TokenizerChoice choice_of(const TokensOptions& options) {
  TokenizerChoice choice{.kind = options.tokenizer};
  if (choice.kind == "gpt2" && options.vocabulary.empty()) {
    throw InputError(
        "--tokenizer gpt2 needs --vocabulary FOLDER with GPT-2's vocab.json and merges.txt");
  }
  if (choice.kind != "characters") return choice;
  std::string all;
  for (const std::string& path : options.texts) {
    const std::string text = read_text(path);
    try {
      for (const std::string& character : characters_of(text)) all += character;
    } catch (const InputError& error) {
      throw InputError(fmt::format("{}: {}", path, error.what()));
    }
  }
  choice.characters = characters_of(all);
  return choice;
}

}  // namespace

ExitCode make_tokens(const TokensOptions& options) {
  const fs::path folder = options.output;
  expect_no_token_files(folder);
  const TokenizerChoice choice = choice_of(options);
  const auto tokenizer = make_tokenizer(choice, options.vocabulary);
  make_folder(folder);
  const std::int64_t vocabulary = tokenizer->vocabulary();
  Shards train(folder, "train", options.shard_tokens, vocabulary),
      test(folder, "test", options.shard_tokens, vocabulary);
  for (const std::string& path : options.texts) {
    const std::string text = read_text(path);
    const std::size_t cut = test_begins(text, options.test_fraction);
    const auto add = [&](Shards& shards, std::string_view part) {
      if (part.empty()) return;
      if (const auto mark = tokenizer->end_of_text()) shards.add({*mark});
      shards.add(tokenizer->encode(part));
    };
    add(train, std::string_view(text).substr(0, cut));
    add(test, std::string_view(text).substr(cut));
  }
  train.finish();
  test.finish();
  if (choice.kind == "gpt2") {
    for (const char* file : {"vocab.json", "merges.txt"}) {
      const fs::path from = fs::path(options.vocabulary) / file, to = folder / file;
      if (!fs::exists(to) || !fs::equivalent(from, to)) copy_atomically(from, to);
    }
  }
  write_tokenizer_choice(folder, choice);
  train::write_stdout(fmt::format("{}: {} training and {} test tokens, vocabulary of {} ({})\n",
                                  folder.string(), train.tokens(), test.tokens(), vocabulary,
                                  choice.kind));
  return ExitCode::done;
}

}  // namespace lockstep::gpt
