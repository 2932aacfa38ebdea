#include <lockstep/deck/deck_tree.hpp>

#include <algorithm>
#include <utility>

#include <lockstep/deck/key_text.hpp>

namespace lockstep::detail {
namespace {

bool is_bare(std::string_view key) {
  return !key.empty() && std::ranges::all_of(key, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-';
  });
}

}  // namespace

std::string to_string(const DeckPosition& position) {
  if (position.line == 0) return position.source;
  return position.source + ":" + std::to_string(position.line);
}

InputError deck_error(const DeckPosition& position, std::string_view sentences) {
  return InputError(to_string(position).append(": ").append(sentences));
}

const DeckValue* DeckTree::find(std::string_view table, std::string_view key) const {
  const auto found = tables.find(table);
  if (found == tables.end()) return nullptr;
  const auto value = found->second.keys.find(key);
  return value == found->second.keys.end() ? nullptr : &value->second;
}

void DeckTree::merge(DeckTree over) {
  const int above = level + 1;
  for (auto& [path, table] : over.tables) {
    auto& mine = tables[path];
    mine.position = std::move(table.position);
    for (auto& [key, value] : table.keys) {
      value.level += above;
      mine.keys.insert_or_assign(key, std::move(value));
    }
  }
  level = above + over.level;
}

std::string join_path(std::string_view table, std::string_view key) {
  std::string path(table);
  if (!path.empty()) path += '.';
  return path += is_bare(key) ? std::string(key) : to_toml(key);
}

}  // namespace lockstep::detail
