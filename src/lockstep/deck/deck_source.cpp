#include <lockstep/deck/deck_source.hpp>

#include <fmt/format.h>

#include <cerrno>
#include <cstdint>
#include <fstream>
#include <optional>
#include <system_error>
#include <utility>

#include <lockstep/deck/deck_text.hpp>
#include <lockstep/deck/key_reader.hpp>
#include <lockstep/deck/key_text.hpp>
#include <lockstep/deck/toml_parser.hpp>

namespace lockstep::detail {
namespace {

namespace fs = std::filesystem;

constexpr std::uintmax_t most_bytes = std::uintmax_t{16} << 20;
constexpr int most_files = 1000;  // chains that include each file twice grow as 2^depth

void check_is_deck_file(const fs::path& file, const std::string& asked_by) {
  std::error_code error;
  const auto status = fs::status(file, error);
  const auto name = file.string();
  if (status.type() == fs::file_type::not_found) {
    const std::string remedy = asked_by.empty()
                                   ? fmt::format("Check the path; the working directory is {}.",
                                                 fs::current_path(error).string())
                                   : "Paths in include start at the folder of the including file.";
    throw InputError(fmt::format("{}the deck {} does not exist. {}", asked_by, name, remedy));
  }
  if (error) {
    throw InputError(
        fmt::format("{}the deck {} cannot be opened: {}. Check the path and its "
                    "permissions.",
                    asked_by, name, error.message()));
  }
  if (status.type() == fs::file_type::directory) {
    throw InputError(
        fmt::format("{}{} is a folder, not a deck. Name a .toml file in it.", asked_by, name));
  }
  if (status.type() != fs::file_type::regular) {
    throw InputError(fmt::format("{}{} is not a regular file. Name a .toml file.", asked_by, name));
  }
  const auto bytes = fs::file_size(file, error);
  if (!error && bytes > most_bytes) {
    throw InputError(
        fmt::format("{}{} is not a deck: it has {} bytes, and decks have at most {} "
                    "(16 MiB). Name a .toml file.",
                    asked_by, name, bytes, most_bytes));
  }
}

std::string read_text(const fs::path& file, const std::string& asked_by) {
  check_is_deck_file(file, asked_by);
  errno = 0;
  std::ifstream in(file, std::ios::binary);
  std::string text;
  char piece[16384];
  while (in && text.size() <= most_bytes) {
    in.read(piece, sizeof piece);
    text.append(piece, static_cast<std::size_t>(in.gcount()));
  }
  if (!in.eof()) {
    throw InputError(fmt::format(
        "{}the deck {} cannot be read: {}. Check the file and its "
        "permissions.",
        asked_by, file.string(), std::generic_category().message(errno != 0 ? errno : EIO)));
  }
  return text;
}

class Loader {
 public:
  DeckTree file(const fs::path& path, const std::string& asked_by) {
    const auto text = read_text(path, asked_by);
    const auto name = path.string();
    std::error_code error;
    chain_.push_back({fs::canonical(path, error), name});
    auto tree = with_includes(text, name, path.parent_path());
    chain_.pop_back();
    return tree;
  }

  DeckTree with_includes(std::string_view text, const std::string& name, const fs::path& folder) {
    check_deck_text(text, {name, 1});
    auto mine = parse_toml(text, name);
    const auto include = mine.tables.at("").keys.extract("include");
    if (include.empty()) return mine;

    const auto& position = include.mapped().position;
    const KeyReader reader{"", "include", {.doc = "decks to start from"}, "[]"};
    DeckTree all;
    for (const auto& path : reader.read(include.mapped(), std::vector<std::string>{})) {
      const auto file_path = (folder / path).lexically_normal();
      check_chain(file_path, position);
      all.merge(file(file_path, to_string(position) + ": "));
    }
    all.merge(std::move(mine));
    return all;
  }

 private:
  struct Open {
    fs::path canonical;
    std::string name;
  };

  void check_chain(const fs::path& path, const DeckPosition& position) {
    if (++files_ > most_files) {
      throw deck_error(position, fmt::format("more than {} decks are included. Include each deck "
                                             "once.",
                                             most_files));
    }
    std::error_code error;  // a missing file is reported where it is read
    const auto canonical = fs::canonical(path, error);
    bool inside = false;
    std::string names;
    for (const auto& open : chain_) {
      inside = inside || open.canonical == canonical;
      if (inside) names += open.name + " -> ";
    }
    if (error || !inside) return;
    throw deck_error(position, fmt::format("decks include each other in a circle: {}{}. Remove one "
                                           "of these includes.",
                                           names, path.string()));
  }

  std::vector<Open> chain_;  // the files being read, outermost first
  int files_ = 0;
};

}  // namespace

DeckTree load_deck(const fs::path& file) { return Loader().file(file, ""); }

DeckTree load_deck_text(std::string_view text, const std::string& name) {
  return Loader().with_includes(text, name, "");
}

DeckTree parse_override(const std::string& text) {
  const auto equals = text.find('=');
  if (equals == std::string::npos || equals == 0 || text.find('\n') != std::string::npos) {
    throw InputError(
        fmt::format("--set {} is not of the form table.key=value, e.g. "
                    "--set train.epochs=1.",
                    excerpt(text)));
  }
  check_deck_text(text, {"--set", 0});
  const auto key = text.substr(0, equals);
  const auto value = text.substr(equals + 1);
  if (value.find_first_not_of(" \t") == std::string::npos) {
    throw InputError(
        fmt::format("--set {} has no value. Write one, or for an empty string "
                    "--set '{}=\"\"'.",
                    text, key));
  }
  const auto parsed = [](const std::string& toml) -> std::optional<DeckTree> {
    try {
      return parse_toml(toml, "--set", /*numbered=*/false);
    } catch (const InputError&) {
      return std::nullopt;
    }
  };
  auto tree = parsed(text);
  // Shells remove quotes, so a string arrives as a bare word.
  const auto meant = fmt::format("{}={}", key, to_toml_from_word(value));
  const bool quoted_or_number = value.find_first_of("\"'[]{}") != std::string::npos ||
                                value.find_first_not_of("0123456789+-_.eE") == std::string::npos;
  if (!tree && !quoted_or_number && parsed(meant)) {
    throw InputError(
        fmt::format("--set {}: the value is not valid TOML. Strings need quotes that "
                    "the shell leaves alone: --set '{}'",
                    excerpt(text), meant));
  }
  if (!tree) tree = parse_toml(text, "--set", /*numbered=*/false);
  const auto& top = tree->tables.at("").keys;
  if (top.contains("include")) {
    throw InputError("--set cannot include decks. Write a deck with include = [...] and run that.");
  }
  if (top.empty() && tree->tables.size() == 1) {
    throw InputError(fmt::format(
        "--set {} sets nothing. Its form is table.key=value, e.g. --set train.epochs=1.",
        excerpt(text)));
  }
  return std::move(*tree);
}

}  // namespace lockstep::detail
