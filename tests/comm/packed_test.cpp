#include <lockstep/comm/packed.hpp>

#include <gtest/gtest.h>

namespace lockstep {
namespace {

enum class Colour : std::uint8_t { red, green };

struct Part {
  double number = 0;
  std::optional<std::string> text;

  static auto fields(auto& self) { return std::tie(self.number, self.text); }
};

struct Whole {
  bool yes = false;
  Colour colour = Colour::red;
  std::int64_t count = 0;
  std::filesystem::path file;
  std::vector<Part> parts;
  std::vector<bool> flags;

  static auto fields(auto& self) {
    return std::tie(self.yes, self.colour, self.count, self.file, self.parts, self.flags);
  }
};

const Whole whole{
    .yes = true,
    .colour = Colour::green,
    .count = -(std::int64_t{1} << 40),
    .file = "a b/\xff.h5",
    .parts = {{.number = 0.1, .text = {}}, {.number = -1, .text = std::string("\0\n", 2)}},
    .flags = {true, false, true}};

TEST(Packed, ValuesComeBackAsTheyWere) {
  const Whole back = unpacked<Whole>(packed(whole));
  EXPECT_TRUE(back.yes);
  EXPECT_EQ(back.colour, Colour::green);
  EXPECT_EQ(back.count, whole.count);
  EXPECT_EQ(back.file, whole.file);
  ASSERT_EQ(back.parts.size(), 2U);
  EXPECT_EQ(back.parts[0].number, 0.1);
  EXPECT_FALSE(back.parts[0].text);
  EXPECT_EQ(back.parts[1].text, std::string("\0\n", 2));
  EXPECT_EQ(back.flags, whole.flags);
}

TEST(Packed, BytesOfAnotherTypeAreRefusedAtAnyLength) {
  const std::string bytes = packed(whole);
  for (std::size_t length = 0; length < bytes.size(); ++length)
    EXPECT_THROW(static_cast<void>(unpacked<Whole>(bytes.substr(0, length))), Error) << length;
  EXPECT_THROW(static_cast<void>(unpacked<Whole>(bytes + '\0')), Error);
}

}  // namespace
}  // namespace lockstep
