#include <lockstep/data/files/idx.hpp>

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <numeric>

#include <lockstep/base/error.hpp>

#include <data/idx_files.hpp>

namespace lockstep {
namespace {

using test::Bytes;
using test::counting;
using test::gzip;
using test::idx;
using test::input_error;
using test::says;

class Idx : public testing::Test {
 protected:
  // The message from reading `content` under `name` with `dims` dimensions; empty on success.
  std::string fault(const std::string& name, const Bytes& content, int dims = 3) const {
    const auto file = folder_.write(name, content);
    const auto before = memory_stats().peak_in_use;
    const std::string message = input_error([&] { return read_idx(file, dims); });
    EXPECT_LT(memory_stats().peak_in_use - before, std::int64_t{200} << 20U) << "a fault allocated";
    if (!message.empty()) {
      EXPECT_NE(message.find(file.string()), std::string::npos) << message;
    }
    return message;
  }

  test::TemporaryFolder folder_;
};

TEST_F(Idx, PlainAndGzipFilesGiveTheSameTensor) {
  const Bytes pixels = counting(5 * 4 * 3);
  const Bytes content = idx({5, 4, 3}, pixels);
  for (const auto& file :
       {folder_.write("images", content), folder_.write("images.gz", gzip(content)),
        folder_.write("gzip-without-the-name", gzip(content))}) {
    const Tensor t = read_idx(file, 3);
    EXPECT_EQ(t.shape(), Shape({5, 4, 3}));
    EXPECT_EQ(t.to_vector<std::uint8_t>(), pixels);
  }
}

TEST_F(Idx, LabelsHaveOneDimension) {
  const Tensor t = read_idx(folder_.write("labels", idx({3}, {7, 0, 9})), 1);
  EXPECT_EQ(t.to_vector<std::uint8_t>(), (Bytes{7, 0, 9}));
}

TEST_F(Idx, SeveralGzipStreamsInOneFileAreJoined) {
  const Bytes content = idx({100}, counting(100));
  Bytes file = gzip(Bytes(content.begin(), content.begin() + 30));
  const Bytes rest = gzip(Bytes(content.begin() + 30, content.end()));
  file.insert(file.end(), rest.begin(), rest.end());
  EXPECT_EQ(read_idx(folder_.write("joined.gz", file), 1).to_vector<std::uint8_t>(), counting(100));
}

TEST_F(Idx, DataBeyondTheFirstReservationAreReadWhole) {
  const std::uint32_t n = (64U << 20U) + 12345U;  // idx.cpp reserves 64 MiB for gzip, then grows
  Bytes data(n, 0);
  for (std::size_t i = 0; i < n; i += 4099) data[i] = static_cast<std::uint8_t>(i >> 12U);
  const auto file = folder_.write("large.gz", gzip(idx({n}, data)));
  EXPECT_TRUE(read_idx(file, 1).to_vector<std::uint8_t>() == data);
}

TEST_F(Idx, MissingFileIsNamed) {
  const auto message = input_error([&] { return read_idx(folder_.path() / "absent", 3); });
  EXPECT_TRUE(says(message, (folder_.path() / "absent").string()));
  EXPECT_TRUE(says(message, "No such file"));
}

TEST_F(Idx, FolderInsteadOfFileIsRefused) {
  EXPECT_TRUE(
      says(input_error([&] { return read_idx(folder_.path(), 3); }), "is a folder, not a file"));
}

TEST_F(Idx, PipeInsteadOfFileIsRefusedAtOnce) {
  const auto pipe = folder_.path() / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_TRUE(says(input_error([&] { return read_idx(pipe, 3); }), "a device or pipe"));
}

TEST_F(Idx, EmptyFileIsTruncated) {
  EXPECT_TRUE(says(fault("empty", {}), "the data end at byte 0"));
  EXPECT_TRUE(says(fault("empty.gz", {}), "an empty file"));
}

TEST_F(Idx, EveryTruncationOfAPlainFileIsRefused) {
  const Bytes whole = idx({2, 3, 4}, counting(24));
  for (std::size_t bytes = 0; bytes < whole.size(); ++bytes) {
    EXPECT_TRUE(
        says(fault("cut", Bytes(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(bytes))),
             "truncated"));
  }
}

TEST_F(Idx, EveryTruncationOfAGzipFileIsRefused) {
  const Bytes whole = gzip(idx({2, 3, 4}, counting(24)));
  for (std::size_t bytes = 2; bytes < whole.size(); ++bytes) {
    const auto message =
        fault("cut.gz", Bytes(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(bytes)));
    EXPECT_TRUE(says(message, "truncated")) << "cut after " << bytes;
  }
}

TEST_F(Idx, GzipWhoseDataEndEarlyIsTruncated) {
  const auto message = fault("short.gz", gzip(idx({10, 2, 2}, counting(39))));
  EXPECT_TRUE(says(message, "announces 10 x 2 x 2 bytes from byte 16"));
  EXPECT_TRUE(says(message, "the data end at byte 55"));
}

TEST_F(Idx, WrongMagicNamesExpectedAndFoundValues) {
  Bytes content = idx({2, 2, 2}, counting(8));
  content[2] = 0x0d;  // floats
  const auto message = fault("floats", content);
  EXPECT_TRUE(
      says(message, "byte 0 should hold the magic number 00000803 (images), found 00000d03"));
}

TEST_F(Idx, SwappedFilesAreRecognised) {
  EXPECT_TRUE(says(fault("a", idx({4}, counting(4)), 3),
                   "holds labels, not images: were two files swapped?"));
  EXPECT_TRUE(says(fault("b", idx({1, 2, 2}, counting(4)), 1), "holds images, not labels"));
}

TEST_F(Idx, AbsurdSizesAllocateNothing) {
  const std::uint32_t most = 0xffffffffU;
  for (const auto& extents : {std::vector<std::uint32_t>{most, most, most},
                              {60000, 28000, 28},
                              {most, 1, 1},
                              {1, 1, 1U << 31U}}) {
    const Bytes content = idx(extents, counting(1000));
    const auto before = memory_stats();
    EXPECT_TRUE(says(fault("absurd", content), "1000 after its header"));
    EXPECT_TRUE(says(fault("absurd.gz", gzip(content)), "cannot hold more than"));
    EXPECT_EQ(memory_stats().peak_in_use, before.peak_in_use);
  }
}

TEST_F(Idx, SizeThatGzipCouldHoldAllocatesNoMoreThanArrives) {
  // 2 MB of incompressible bytes: gzip's ratio would allow the announced 1 GiB.
  Bytes noise(2000000);
  std::uint32_t x = 1;
  for (auto& byte : noise)
    byte = static_cast<std::uint8_t>((x = x * 1664525U + 1013904223U) >> 24U);
  const auto before = memory_stats().peak_in_use;
  EXPECT_TRUE(says(fault("lying.gz", gzip(idx({1U << 30U}, noise)), 1), "truncated"));
  EXPECT_LE(memory_stats().peak_in_use - before, std::int64_t{80} << 20U);
}

TEST_F(Idx, BombBehindAModestHeaderIsNotUnpacked) {
  const auto before = memory_stats().peak_in_use;
  const auto message = fault("bomb.gz", gzip(idx({10, 2, 2}, Bytes(std::size_t{100} << 20U, 0))));
  EXPECT_TRUE(says(message, "should end at byte 56, but more follow"));
  EXPECT_LT(memory_stats().peak_in_use - before, 1 << 20);
}

TEST_F(Idx, SizeZeroIsRefused) {
  EXPECT_TRUE(says(fault("none", idx({0, 28, 28}, {})), "the size at byte 4 is 0"));
  EXPECT_TRUE(says(fault("flat", idx({5, 0, 28}, {})), "the size at byte 8 is 0"));
}

TEST_F(Idx, TrailingBytesAreRefused) {
  Bytes content = idx({2, 2, 2}, counting(9));
  EXPECT_TRUE(says(fault("long", content), "should end at byte 24, but more follow"));
  Bytes junk = gzip(idx({2, 2, 2}, counting(8)));
  junk.push_back('x');
  EXPECT_TRUE(says(fault("junk.gz", junk), "bytes that are not gzip follow"));
}

TEST_F(Idx, NameWithoutTheFormatIsRefused) {
  EXPECT_TRUE(says(fault("plain.gz", idx({2, 2, 2}, counting(8))), "named .gz but is not gzip"));
}

TEST_F(Idx, FlippedBitInAnyByteOfAGzipFileIsNoticedOrHarmless) {
  const Bytes good = gzip(idx({4, 5, 5}, counting(100)));
  std::size_t noticed = 0;
  for (std::size_t i = 0; i < good.size(); ++i) {
    Bytes bad = good;
    bad[i] = static_cast<std::uint8_t>(bad[i] ^ (1U << (5 * i % 8)));
    const auto file = folder_.write("flipped", bad);
    try {
      EXPECT_EQ(read_idx(file, 3).to_vector<std::uint8_t>(), counting(100)) << "byte " << i;
    } catch (const InputError&) {
      ++noticed;
    }
  }
  EXPECT_GE(noticed, good.size() - 7);  // time, level and system in gzip's header do not matter
}

}  // namespace
}  // namespace lockstep
