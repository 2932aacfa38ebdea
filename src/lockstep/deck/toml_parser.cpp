// The only file that includes toml++, which takes seconds to compile.
#include <lockstep/deck/toml_parser.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include <lockstep/deck/key_text.hpp>

#define TOML_EXCEPTIONS 0
#define TOML_ENABLE_FORMATTERS 0
#define TOML_MAX_NESTED_VALUES \
  32  // bounds the recursion together with deck_text.cpp's bound on keys
// toml++ 3.3 asserts conditions (and, with NDEBUG, lets the optimizer assume them) that its own
// checks a few lines below report as errors; "[=" is enough to trigger it. Without the assertions
// these checks decide.
#undef NDEBUG
#define TOML_ASSERT(expr) static_assert(true)
#include <toml++/toml.h>

namespace lockstep::detail {
namespace {

// toml++ 3.3 takes some characters for line ends. For others (U+00A1 to U+0499) it reaches
// __builtin_unreachable where it looks for white space; a legal deck can trigger that. So each byte
// b of a character beyond ASCII is passed as U+10FF00 + b, a private character unknown to toml++.
// unshielded() converts back.
std::string shielded(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x80) {
      result += c;
    } else {
      result += byte < 0xC0 ? "\xF4\x8F\xBE" : "\xF4\x8F\xBF";
      result += static_cast<char>(0x80 | (byte & 0x3F));
    }
  }
  return result;
}

std::string unshielded(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  for (std::size_t at = 0; at < text.size(); ++at) {
    const auto four = text.substr(at, 4);
    const bool low = four.starts_with("\xF4\x8F\xBE"), high = four.starts_with("\xF4\x8F\xBF");
    if (four.size() == 4 && (low || high)) {
      const auto bits = static_cast<unsigned char>(four[3]) & 0x3F;
      result += static_cast<char>((low ? 0x80 : 0xC0) | bits);
      at += 3;
    } else {
      result += text[at];
    }
  }
  return result;
}

class TreeBuilder {
 public:
  TreeBuilder(const std::string& source, bool numbered) : source_(source), numbered_(numbered) {}

  DeckTree build(const toml::table& root) {
    DeckTree tree;
    add(tree, "", root, DeckPosition{source_, numbered_ ? 1 : 0});
    return tree;
  }

 private:
  DeckPosition position(const toml::source_region& region) const {
    return {source_, numbered_ ? static_cast<int>(region.begin.line) : 0};
  }

  void add(DeckTree& tree, const std::string& path, const toml::table& table,
           DeckPosition table_position) {
    tree.tables[path].position = std::move(table_position);
    for (const auto& [key, node] : table) {
      const auto key_position = position(key.source());
      const auto name = unshielded(key.str());
      if (const auto* inner = node.as_table()) {
        add(tree, join_path(path, name), *inner, key_position);
      } else {
        auto value = convert(node);
        value.position = key_position;
        tree.tables[path].keys.emplace(name, std::move(value));
      }
    }
  }

  DeckValue convert(const toml::node& node) {
    DeckValue value{false, position(node.source())};
    switch (node.type()) {
      case toml::node_type::boolean:
        value.data = node.as_boolean()->get();
        break;
      case toml::node_type::integer:
        value.data = node.as_integer()->get();
        break;
      case toml::node_type::floating_point:
        value.data = node.as_floating_point()->get();
        break;
      case toml::node_type::string:
        value.data = unshielded(node.as_string()->get());
        break;
      case toml::node_type::array: {
        DeckValue::List list;
        for (const auto& element : *node.as_array()) list.push_back(convert(element));
        value.data = std::move(list);
        break;
      }
      case toml::node_type::table:
        value.data = DeckValue::Other{"a table"};
        break;
      default:
        value.data = DeckValue::Other{"a date or time"};
    }
    return value;
  }

  std::string source_;
  bool numbered_;
};

std::string_view trimmed(std::string_view text) {
  const auto begin = text.find_first_not_of(" \t\r");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1);
}

struct Line {
  std::string_view text;    ///< trimmed
  std::string_view before;  ///< all lines above it
};

Line line_of(std::string_view text, int number) {
  std::size_t begin = 0;
  for (int line = 1; line < number; ++line) {
    const auto end = text.find('\n', begin);
    if (end == std::string_view::npos) break;
    begin = end + 1;
  }
  return {trimmed(text.substr(begin, text.find('\n', begin) - begin)), text.substr(0, begin)};
}

// "[a.b]" of the nearest line above that looks like a table header, without the brackets.
std::string_view table_above(std::string_view before) {
  while (!before.empty()) {
    before.remove_suffix(1);
    const auto begin = before.rfind('\n') + 1;  // npos + 1 is 0
    const auto line = trimmed(before.substr(begin));
    before = before.substr(0, begin);
    if (line.starts_with('[') && !line.starts_with("[[")) {
      return trimmed(line.substr(1, line.find(']') - 1));
    }
  }
  return {};
}

// toml++ names only the last part of the key, so the line of the first definition is given too.
InputError given_twice(const DeckPosition& position, const Line& line, std::string_view name) {
  std::string first;
  const auto table = line.text.starts_with('[') ? std::string_view{} : table_above(line.before);
  const auto path = line.text.starts_with('[') ? std::string(name) : join_path(table, name);
  if (const auto above = toml::parse(shielded(line.before))) {
    const auto tree = TreeBuilder(position.source, true).build(above.table());
    if (const auto* value = tree.find(table, name)) {
      first = fmt::format("; the first is on line {}", value->position.line);
    } else if (const auto found = tree.tables.find(path); found != tree.tables.end()) {
      first = fmt::format("; the first is on line {}", found->second.position.line);
    }
  }
  if (line.text.starts_with('[')) {
    return deck_error(position, fmt::format("the table [{}] is given twice{}. Keep one header and "
                                            "write all of its keys below that.",
                                            excerpt(path), first));
  }
  return deck_error(position,
                    fmt::format("{} is given twice{}. Keep one of them.", excerpt(path), first));
}

// The text after the "=" of a line, without a comment; empty without "=".
std::string_view value_of(std::string_view line) {
  const auto equals = line.find('=');
  if (equals == std::string_view::npos || line.starts_with('[')) return {};
  const auto value = trimmed(line.substr(equals + 1));
  return trimmed(value.substr(0, value.find(" #")));
}

// A value that begins like a word or a path: most likely a string without its quotes.
std::string_view bare_word(std::string_view word) {
  if (word.empty() || word.find_first_of("\"'[]{}#") != std::string_view::npos) return {};
  const char c = word.front();
  const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  return letter || c == '/' || c == '.' || c == '~' || c == '$' || c == '_' ? word
                                                                            : std::string_view{};
}

// A word like ".1" or "007", a number in other languages, as TOML writes it; else nothing.
std::string misspelt_number(std::string_view word) {
  const auto number = number_from_word(word);
  if (!number || toml::parse(fmt::format("x = {}", word))) return {};
  return to_toml(*number);
}

InputError explained(const toml::parse_error& error, std::string_view text,
                     const std::string& source, bool numbered) {
  const int number = static_cast<int>(error.source().begin.line);
  const DeckPosition position{source, numbered ? number : 0};
  const auto line = line_of(text, number);

  // "Error while parsing key-value pair: expected '=', saw '\n'": keeps the second half.
  const auto description = unshielded(error.description());
  std::string_view reason = description;
  if (const auto colon = reason.find(": "); colon != std::string_view::npos) {
    reason.remove_prefix(colon + 2);
  }
  if (reason.starts_with("cannot redefine existing") && reason.ends_with('\'')) {
    const auto quote = reason.find('\'');
    return given_twice(position, line, reason.substr(quote + 1, reason.size() - quote - 2));
  }

  const auto key = trimmed(line.text.substr(0, line.text.find('=')));
  std::string remedy = "A deck has lines `key = value` below lines [table].";
  if (reason.find("not representable in 64 bits") != std::string_view::npos) {
    remedy = "Whole numbers lie between -9223372036854775808 and 9223372036854775807.";
  } else if (const auto correct = misspelt_number(value_of(line.text)); !correct.empty()) {
    remedy = fmt::format("TOML writes that number so: {} = {}", excerpt(key), correct);
  } else if (const auto word = bare_word(value_of(line.text)); !word.empty()) {
    remedy = fmt::format("Strings need quotes, and booleans are true or false; write {} = {}",
                         excerpt(key), excerpt(to_toml_from_word(word)));
  }
  return deck_error(position, fmt::format("{} is not valid TOML ({}). {}",
                                          to_toml(excerpt(line.text)), reason, remedy));
}

}  // namespace

DeckTree parse_toml(std::string_view text, const std::string& source, bool numbered) {
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);  // a byte order mark
  for (const std::string_view private_use : {"\\U0010FF", "\\U0010ff"}) {
    if (const auto at = text.find(private_use); at != std::string_view::npos) {
      const auto line = 1 + static_cast<int>(std::ranges::count(text.substr(0, at), '\n'));
      throw deck_error({source, numbered ? line : 0},
                       "escapes of the private characters from U+10FF00 on are not supported. "
                       "Write the character itself.");
    }
  }
  const auto result = toml::parse(shielded(text));
  if (!result) throw explained(result.error(), text, source, numbered);
  return TreeBuilder(source, numbered).build(result.table());
}

}  // namespace lockstep::detail
