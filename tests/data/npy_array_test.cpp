// Arrays as numpy.save writes them: types, orders, rows, and refusals.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <lockstep/base/error.hpp>
#include <lockstep/data/files/npy_array.hpp>
#include <support/message_of.hpp>
#include <support/process.hpp>

#include "npy_files.hpp"
#include "stored_numbers.hpp"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using test::counted;
using test::npy;
using test::ScratchFolder;

TEST(NpyArray, ReadsEveryTypeThatItNames) {
  const ScratchFolder folder;
  const auto expect = [&](const auto& numbers, const std::string& descr, bool integers) {
    const fs::path file = folder.write("a.npy", npy(descr, "(2, 3)", numbers));
    const NpyArray array(file);
    EXPECT_EQ(array.shape(), Shape({2, 3})) << descr;
    EXPECT_EQ(array.integers(), integers) << descr;
    EXPECT_EQ(array.bytes(), descr == "|u1");
    EXPECT_EQ(all_of<float>(array), (std::vector<float>{0, 1, 1, 0, 1, 0})) << descr;
    EXPECT_EQ(all_of<std::int64_t>(array), (std::vector<std::int64_t>{0, 1, 1, 0, 1, 0}));
  };
  expect(std::vector<float>{0, 1, 1, 0, 1, 0}, "<f4", false);
  expect(std::vector<double>{0, 1, 1, 0, 1, 0}, "<f8", false);
  for (const char* bytes : {"|b1", "|u1"})
    expect(std::vector<std::uint8_t>{0, 1, 1, 0, 1, 0}, bytes, true);
  expect(std::vector<std::int8_t>{0, 1, 1, 0, 1, 0}, "|i1", true);
  expect(std::vector<std::uint16_t>{0, 1, 1, 0, 1, 0}, "<u2", true);
  expect(std::vector<std::int16_t>{0, 1, 1, 0, 1, 0}, "<i2", true);
  expect(std::vector<std::uint32_t>{0, 1, 1, 0, 1, 0}, "<u4", true);
  expect(std::vector<std::int32_t>{0, 1, 1, 0, 1, 0}, "<i4", true);
  expect(std::vector<std::int64_t>{0, 1, 1, 0, 1, 0}, "<i8", true);
}

TEST(NpyArray, ReadsNumbersInTheOtherByteOrder) {
  const ScratchFolder folder;
  const auto expect = [&](const std::string& type, auto one) {
    using T = decltype(one);
    std::vector<T> numbers;
    for (const int value : {0, 1, 3, 100, 2, 1}) {
      auto number = static_cast<T>(value);
      auto* const bytes = reinterpret_cast<std::byte*>(&number);
      std::reverse(bytes, bytes + sizeof(T));
      numbers.push_back(number);
    }
    const NpyArray array(folder.write("a.npy", npy(">" + type, "(2, 3)", numbers)));
    EXPECT_EQ(all_of<float>(array), (std::vector<float>{0, 1, 3, 100, 2, 1})) << type;
    EXPECT_EQ(all_of<std::int64_t>(array), (std::vector<std::int64_t>{0, 1, 3, 100, 2, 1})) << type;
  };
  expect("f4", float{});
  expect("f8", double{});
  expect("u2", std::uint16_t{});
  expect("i4", std::int32_t{});
  expect("i8", std::int64_t{});
  expect("u8", std::uint64_t{});
}

TEST(NpyArray, ReadsHalvesAndUnsignedIntegersOf64Bits) {
  const ScratchFolder folder;
  // 1.5, -2, 65504, 2^-24.
  const std::vector<std::uint16_t> halves{0x3e00, 0xc000, 0x7bff, 0x0001};
  const NpyArray half(folder.write("h.npy", npy("<f2", "(4,)", halves)));
  EXPECT_EQ(all_of<float>(half), (std::vector<float>{1.5F, -2.0F, 65504.0F, 0x1p-24F}));
  EXPECT_FALSE(half.integers());
  const std::vector<std::uint64_t> large{7, std::uint64_t{1} << 62U, ~std::uint64_t{0}};
  const NpyArray integers(folder.write("u.npy", npy("<u8", "(3,)", large)));
  EXPECT_TRUE(integers.integers());
  EXPECT_EQ(all_of<std::int64_t>(integers),
            (std::vector<std::int64_t>{7, std::int64_t{1} << 62U, INT64_MAX}));
  EXPECT_EQ(all_of<float>(integers), (std::vector<float>{7.0F, 0x1p62F, 0x1p64F}));
}

TEST(NpyArray, InFortranOrderIsTheSameArray) {
  const ScratchFolder folder;
  // Element (n, i, j) of [1500, 2, 3] is 100 n + 10 i + j; more rows than are read at a time.
  constexpr std::int64_t n = 1500;
  std::vector<float> c_order, fortran;
  const auto value = [](std::int64_t r, std::int64_t i, std::int64_t j) {
    return static_cast<float>(100 * r + 10 * i + j);
  };
  for (std::int64_t r = 0; r < n; ++r)
    for (std::int64_t i = 0; i < 2; ++i)
      for (std::int64_t j = 0; j < 3; ++j) c_order.push_back(value(r, i, j));
  for (std::int64_t j = 0; j < 3; ++j)
    for (std::int64_t i = 0; i < 2; ++i)
      for (std::int64_t r = 0; r < n; ++r) fortran.push_back(value(r, i, j));
  const NpyArray array(folder.write("f.npy", npy("<f4", "(1500, 2, 3)", fortran, "True")));
  EXPECT_EQ(all_of<float>(array), c_order);
  std::vector<float> rows(2 * 6);
  array.read(1200, 1202, std::span(rows));
  EXPECT_EQ(rows, std::vector<float>(c_order.begin() + 7200, c_order.begin() + 7212));
  EXPECT_EQ(all_of<float>(NpyArray(folder.write("v.npy", npy("<f4", "(5,)", counted(5), "True")))),
            counted(5));
}

TEST(NpyArray, ReadsSomeRows) {
  const ScratchFolder folder;
  const NpyArray array(folder.write("a.npy", npy("<f4", "(5, 2)", counted(10))));
  std::vector<float> rows(4);
  array.read(2, 4, std::span(rows));
  EXPECT_EQ(rows, (std::vector<float>{5, 6, 7, 8}));
  EXPECT_EQ(NpyArray(folder.write("b.npy", npy("<f4", "(5,)", counted(5)))).shape(), Shape({5}));
}

TEST(NpyArray, UnreadableFilesAreASentence) {
  const ScratchFolder folder;
  const auto refusal = [&](const std::string& text) {
    const fs::path file = folder.write("bad.npy", text);
    return test::message_of<InputError>([&] { static_cast<void>(NpyArray(file)); });
  };
  expect_says(
      test::message_of<InputError>([&] { static_cast<void>(NpyArray(folder.file("none.npy"))); }),
      "none.npy is missing. Write it with numpy.save");
  expect_says(refusal("a,b\n1,2\n"), "is not a .npy file");
  expect_says(refusal(std::string(200, 'x')), "does not begin with \\x93NUMPY");
  expect_says(refusal(npy("<c8", "(2,)", counted(4))), "holds '<c8'");
  expect_says(refusal(npy("<f3", "(2,)", counted(2))), "only float16, float32, float64");
  expect_says(refusal(npy("<f4", "()", counted(1))), "has 0 dimensions");
  expect_says(refusal(npy("<f4", "(2, 3)", counted(5))), "is truncated: [2, 3] numbers need");
  expect_says(refusal(npy("<f4", "(99999999999, 99999999999)", counted(1))), "gives no shape");
  const std::string whole = npy("<f4", "(2, 3)", counted(6));
  for (std::size_t size = 0; size < whole.size(); ++size)
    expect_says(refusal(whole.substr(0, size)), "data file ");
  expect_says(refusal(whole + whole), "has 152 bytes after its array, [2, 3]: ");
}

}  // namespace
}  // namespace lockstep
