#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

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

TEST(ReadFile, NamesTheUnreadableFileAndTheReason) {
  const test::ScratchFolder scratch;
  const auto missing = scratch.file("missing");
  EXPECT_EQ(refusal(missing), missing + " cannot be read: No such file or directory");
  EXPECT_EQ(refusal(scratch.path()), scratch.path() + " cannot be read: Is a directory");
}

TEST(ReadFile, RefusesPipesDevicesAndSocketsAtOnce) {
  const test::ScratchFolder scratch;
  const auto pipe = scratch.file("pipe"), link = scratch.file("link"), end = scratch.file("end");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);  // no writer: an open() would block
  std::filesystem::create_symlink("/dev/zero", link);
  const int descriptor = socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  end.copy(address.sun_path, sizeof(address.sun_path) - 1);
  ASSERT_EQ(bind(descriptor, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  EXPECT_EQ(refusal(pipe), pipe + " cannot be read: it is a pipe, not a file");
  EXPECT_EQ(refusal(link), link + " cannot be read: it is a device, not a file");
  EXPECT_EQ(refusal(end), end + " cannot be read: it is a socket or a device, not a file");
  close(descriptor);
}

TEST(ReadFile, RefusesAFileAboveTheGivenSize) {
  const test::ScratchFolder scratch;
  const auto file = scratch.write("file", std::string(1000, 'x'));
  EXPECT_EQ(read_small_file(file, 1000).size(), 1000U);
  EXPECT_EQ(test::message_of<InputError>([&] { static_cast<void>(read_small_file(file, 999)); }),
            file + " cannot be read: it has more than the 999 bytes that such a file may have");
  EXPECT_EQ(read_small_file_or_nothing(file, 999), "");
  EXPECT_EQ(read_small_file_or_nothing(scratch.file("none"), 999), "");
}

}  // namespace
}  // namespace lockstep
