#include <gtest/gtest.h>

#include <filesystem>
#include <lockstep/base/error.hpp>
#include <lockstep/base/read_file.hpp>
#include <support/message_of.hpp>
#include <support/process.hpp>

namespace lockstep {
namespace {

std::string refusal(const std::string& path) {
  return test::message_of<InputError>([&] { static_cast<void>(read_file(path)); });
}

TEST(ReadFile, GivesEveryByteOfAnyLength) {
  const test::ScratchFolder scratch;
  for (const std::size_t bytes : {0, 1, 16383, 16384, 16385, 100000}) {
    std::string text(bytes, '\0');
    for (std::size_t i = 0; i < bytes; ++i) text[i] = static_cast<char>(i % 251);
    EXPECT_EQ(read_file(scratch.write("file", text)), text) << bytes;
  }
}

TEST(ReadFile, SaysWhatCannotBeReadAndWhy) {
  const test::ScratchFolder scratch;
  const auto missing = scratch.file("missing");
  EXPECT_EQ(refusal(missing), missing + " cannot be read: No such file or directory");
  EXPECT_EQ(refusal(scratch.path()), scratch.path() + " cannot be read: Is a directory");
}

}  // namespace
}  // namespace lockstep
