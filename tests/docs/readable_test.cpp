#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <sstream>
#include <string>
#include <support/process.hpp>
#include <vector>

// Pages of docs/guide can be read: cells of tables and listings have a limit, and the index leads
// to every page. project.sentences_are_short looks at sentences.

namespace lockstep::test {
namespace {

constexpr int lines_a_listing = 40;
constexpr std::size_t characters_a_cell = 160;

struct Tables {
  std::vector<std::string> rows;
  int longest_listing = 0;
};

Tables tables_of(const std::string& text) {
  Tables page;
  bool in_listing = false;
  int lines = 0;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    if (line.starts_with("```")) {
      in_listing = !in_listing;
      lines = 0;
    } else if (in_listing) {
      page.longest_listing = std::max(page.longest_listing, ++lines);
    } else if (line.starts_with("|")) {
      page.rows.push_back(line);
    }
  }
  EXPECT_FALSE(in_listing) << "a listing has no end";
  return page;
}

/// Of a table's row.
std::vector<std::string> long_cells(const std::string& row) {
  std::vector<std::string> found;
  std::string cell;
  for (std::size_t i = 1; i < row.size(); ++i) {
    if (row[i] != '|' || row[i - 1] == '\\') {
      cell += row[i];
      continue;
    }
    if (cell.size() > characters_a_cell + 2) found.push_back(cell);  // a space at either side
    cell.clear();
  }
  return found;
}

std::vector<std::string> guide() {
  std::vector<std::string> pages{"docs/README.md"};
  for (const auto& entry : std::filesystem::directory_iterator(source("docs/guide")))
    pages.push_back("docs/guide/" + entry.path().filename().string());
  return pages;
}

TEST(Guide, HasShortCellsAndListings) {
  std::size_t rows = 0;
  for (const auto& name : guide()) {
    const Tables page = tables_of(read_file(source(name)));
    EXPECT_LE(page.longest_listing, lines_a_listing) << name;
    for (const auto& row : page.rows) {
      for (const auto& cell : long_cells(row)) ADD_FAILURE() << name << ": " << cell;
    }
    rows += page.rows.size();
  }
  EXPECT_GT(rows, 100U);
}

TEST(Guide, LongCellsAndListingsAreSeen) {
  EXPECT_TRUE(long_cells("| a | " + std::string(characters_a_cell, 'b') + " |").empty());
  EXPECT_EQ(long_cells("| a | " + std::string(characters_a_cell + 1, 'b') + " |").size(), 1U);
  const Tables page = tables_of("# Title\n\n| row |\n\n```\na\nb\n```\n");
  EXPECT_EQ(page.rows.size(), 1U);
  EXPECT_EQ(page.longest_listing, 2);
}

TEST(Guide, IsInAnIndexThatFitsAScreen) {
  const std::string index = read_file(source("docs/README.md"));
  EXPECT_LE(std::ranges::count(index, '\n'), 50);
  for (const auto& name : guide()) {
    if (name == "docs/README.md") continue;
    EXPECT_NE(index.find("(" + name.substr(5) + ")"), std::string::npos) << name;
  }
}

}  // namespace
}  // namespace lockstep::test
