#pragma once
#include <gtest/gtest.h>

#include <string>
#include <support/process.hpp>

namespace lockstep::test {

/// The first block of C++ in `text`, of a page, is lines of docs/examples/EXAMPLE.cpp, word for
/// word. Returns the text after that block.
inline std::string expect_block(const std::string& text, const std::string& page,
                                const std::string& example) {
  const std::string fence = "\n```cpp\n";
  const auto begin = text.find(fence);
  if (begin == std::string::npos) {
    ADD_FAILURE() << page << " has no block of " << example;
    return "";
  }
  const auto first = begin + fence.size(), end = text.find("\n```\n", first) + 1;
  const std::string shown = text.substr(first, end - first);
  EXPECT_NE(read_file(source("docs/examples/" + example + ".cpp")).find("\n" + shown),
            std::string::npos)
      << "docs/examples/" << example << ".cpp does not hold these lines of " << page << ":\n"
      << shown;
  return text.substr(end + 3);
}

/// The page of docs/guide links docs/examples/EXAMPLE.cpp, and the next block of C++ is lines of
/// that program, word for word. Returns the page after that block.
inline std::string expect_excerpt(const std::string& page, const std::string& example) {
  const std::string text = read_file(source("docs/guide/" + page));
  const std::string fence = "\n```cpp\n";
  const auto link = text.find("(../examples/" + example + ".cpp)");
  const auto begin = text.find(fence, link);
  if (link == std::string::npos || begin == std::string::npos) {
    ADD_FAILURE() << page << " does not link docs/examples/" << example << ".cpp above a block";
    return "";
  }
  const auto first = begin + fence.size(), end = text.find("\n```\n", first) + 1;
  const std::string shown = text.substr(first, end - first);
  EXPECT_GT(shown.size(), 100U) << page << ": " << shown;
  EXPECT_EQ(text.substr(link, begin - link).find("```"), std::string::npos)
      << page << ": another block follows the link to " << example;
  return expect_block(text.substr(begin), page, example);
}

/// The same, and the block after it is `output`.
inline void expect_excerpt_and_output(const std::string& page, const std::string& example,
                                      const std::string& output) {
  const std::string rest = expect_excerpt(page, example);
  const auto next = rest.find("\n```\n");
  EXPECT_TRUE(next != std::string::npos &&
              rest.compare(next, output.size() + 8, "\n```\n" + output + "```") == 0)
      << page << " does not show that " << example << " prints\n"
      << output;
}

}  // namespace lockstep::test
