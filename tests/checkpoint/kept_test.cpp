// The promise of docs/reference/checkpoint_format.md: files of earlier versions can be read, every
// bit.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include <checkpoint/kept_contents.hpp>
#include <lockstep/checkpoint/file/manifest.hpp>

namespace lockstep {
namespace {

class KeptFile : public testing::TestWithParam<int> {};

TEST_P(KeptFile, OfEachFormatHoldsItsVersionsContents) {
  const char* sources = std::getenv("LOCKSTEP_SOURCE_DIR");
  ASSERT_NE(sources, nullptr);
  const auto path = std::filesystem::path(sources) / "tests/checkpoint/kept" /
                    ("format-" + std::to_string(GetParam()) + ".h5");
  verify_checkpoint(path);
  const auto got = load_checkpoint(path);
  const auto want = test::kept_contents(GetParam());
  test::expect_same_bits(got.model, want.model);
  test::expect_same_bits(got.optimizer, want.optimizer);
  EXPECT_EQ(got.train, want.train);
  EXPECT_EQ(got.deck, want.deck);
  EXPECT_EQ(got.signature, want.signature);
  for (const auto& entry : want.metadata)
    EXPECT_NE(std::ranges::find(got.metadata, entry), got.metadata.end()) << entry.first;
}

INSTANTIATE_TEST_SUITE_P(All, KeptFile, testing::Range(1, Header::newest_format + 1));

}  // namespace
}  // namespace lockstep
