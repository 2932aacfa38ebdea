#include <lockstep/checkpoint/file/manifest.hpp>

#include <gtest/gtest.h>

#include <lockstep/base/error.hpp>
#include <lockstep/checkpoint/save/plan.hpp>

namespace lockstep {
namespace {

Manifest example() {
  Manifest manifest;
  manifest.structure_hash = 0x0123456789abcdef;
  DatasetEntry a;
  a.path = "/model/a name with spaces";
  a.dtype = DType::f64;
  a.shape = Shape{1'000'000, 3};
  a.offset = 3'000'000'000;
  a.slabs = cut_slabs(0, a.bytes());
  a.slabs[2].hash = 7;
  DatasetEntry b;
  b.path = "/deck";
  b.text = true;
  b.shape = Shape{5};
  b.offset = 1000;
  b.slabs = cut_slabs(0, 5);
  DatasetEntry c;
  c.path = "/train/step";
  c.dtype = DType::i64;
  c.offset = 2000;
  c.slabs = cut_slabs(0, 8);
  manifest.datasets = {a, b, c};
  return manifest;
}

TEST(Manifest, ItsTextReadsBackAndHasALengthThatHashesDoNotChange) {
  auto manifest = example();
  const auto text = manifest.to_text();
  EXPECT_EQ(Manifest::parse(text).to_text(), text);
  EXPECT_EQ(Manifest::parse(text).datasets[0].slabs[2].hash, 7U);
  EXPECT_EQ(Manifest::parse(text).datasets[2].shape, Shape());
  for (auto& slab : manifest.datasets[0].slabs) slab.hash = ~0ULL;
  EXPECT_EQ(manifest.to_text().size(), text.size());
}

TEST(Manifest, AnyTextCutShortIsRefusedOrReadAsFewerDatasets) {
  const auto text = example().to_text();
  for (std::size_t n = 0; n < text.size(); ++n) {
    try {
      EXPECT_LE(Manifest::parse(text.substr(0, n)).datasets.size(), 2U) << n;
    } catch (const Error&) {
      SUCCEED();
    }
  }
}

TEST(Header, ReadsBackAndEveryBitOfItsBlockCounts) {
  Header header;
  header.file_bytes = 5'000'000'000;
  header.manifest = {4'000'000'000, 1234};
  header.manifest_hash = 42;
  auto block = header.to_block();
  const auto back = Header::parse(block);
  EXPECT_EQ(back.file_bytes, header.file_bytes);
  EXPECT_EQ(back.manifest.offset, header.manifest.offset);
  EXPECT_EQ(back.manifest.bytes, header.manifest.bytes);
  EXPECT_EQ(back.manifest_hash, 42U);
  for (std::size_t bit = 0; bit < block.size() * 8; ++bit) {
    block[bit / 8] = static_cast<char>(block[bit / 8] ^ (1 << bit % 8));
    EXPECT_THROW(static_cast<void>(Header::parse(block)), Error) << "bit " << bit;
    block[bit / 8] = static_cast<char>(block[bit / 8] ^ (1 << bit % 8));
  }
}

TEST(Header, AnotherFormatIsNamedWithBothNumbers) {
  Header header;
  header.format = 5;
  try {
    static_cast<void>(Header::parse(header.to_block()));
    FAIL() << "read format 5";
  } catch (const Error& e) {
    EXPECT_STREQ(
        e.what(),
        "was written in format 5 by another version of Lockstep; this one reads formats 1 to 4");
  }
}

TEST(StructureExtents, AreTheRestAndOverlapsAreRefused) {
  Header header;
  header.file_bytes = 3'000'000'000 + 24'000'000 + 10;
  header.manifest = {512, 400};
  auto manifest = example();
  std::int64_t left = 0;
  for (const auto& extent : structure_extents(header, manifest)) left += extent.bytes;
  EXPECT_EQ(left, header.file_bytes - 512 - 400 - 24'000'000 - 5 - 8);
  manifest.datasets[1].offset = 2004;
  EXPECT_THROW(static_cast<void>(structure_extents(header, manifest)), Error);
  manifest.datasets[1].offset = header.file_bytes - 4;
  EXPECT_THROW(static_cast<void>(structure_extents(header, manifest)), Error);
}

}  // namespace
}  // namespace lockstep
