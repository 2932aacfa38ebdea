#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include <lockstep/base/hash.hpp>

namespace lockstep {
namespace {

// The bytes that xxHash's own sanity check (cli/xsum_sanity_check.c) hashes.
std::vector<unsigned char> sanity_buffer(std::size_t bytes) {
  std::vector<unsigned char> buffer(bytes);
  std::uint64_t state = 2654435761U;
  for (auto& byte : buffer) {
    byte = static_cast<unsigned char>(state >> 56);
    state *= 11400714785074694797ULL;
  }
  return buffer;
}

TEST(Hash, MatchesTheReferenceValuesOfXxh3) {
  struct Known {
    std::size_t bytes;
    std::uint64_t hash;
  };
  // One length of each code path of XXH3: 0, 1-3, 4-8, 9-16, 17-128, 129-240, longer.
  for (const auto& [bytes, hash] :
       {Known{0, 0x2D06800538D394C2}, Known{1, 0xC44BDFF4074EECDB}, Known{6, 0x27B56A84CD2D7325},
        Known{12, 0xA713DAF0DFBB77E7}, Known{24, 0xA3FE70BF9D3510EB}, Known{48, 0x397DA259ECBA1F11},
        Known{80, 0xBCDEFBBB2C47C90A}, Known{195, 0xCD94217EE362EC3A},
        Known{403, 0xCDEB804D65C6DEA4}, Known{2048, 0xDD59E2C3A5F038E0}}) {
    const auto buffer = sanity_buffer(bytes);
    EXPECT_EQ(hash64(buffer.data(), bytes), hash) << bytes << " bytes";
  }
}

TEST(Hash, PiecesGiveTheHashOfTheWhole) {
  const auto buffer = sanity_buffer(5000);
  const auto whole = hash64(buffer.data(), buffer.size());
  for (const std::size_t piece : {1U, 7U, 64U, 1024U, 4999U, 5000U}) {
    Hasher hasher;
    for (std::size_t at = 0; at < buffer.size(); at += piece) {
      hasher.update(buffer.data() + at, std::min(piece, buffer.size() - at));
      hasher.update(nullptr, 0);
    }
    EXPECT_EQ(hasher.digest(), whole) << "in pieces of " << piece;
  }
  EXPECT_EQ(Hasher().digest(), hash64(nullptr, 0));
}

TEST(Hash, DigestDoesNotEndTheSequence) {
  const auto buffer = sanity_buffer(1000);
  Hasher hasher;
  hasher.update(buffer.data(), 300);
  EXPECT_EQ(hasher.digest(), hash64(buffer.data(), 300));
  hasher.update(buffer.data() + 300, 700);
  EXPECT_EQ(hasher.digest(), hash64(buffer.data(), 1000));
}

TEST(Hash, OneFlippedBitChangesIt) {
  auto buffer = sanity_buffer(1000);
  const auto before = hash64(buffer.data(), buffer.size());
  for (const std::size_t at : {0U, 500U, 999U}) {
    buffer[at] ^= 1U;
    EXPECT_NE(hash64(buffer.data(), buffer.size()), before);
    buffer[at] ^= 1U;
  }
}

TEST(Hash, HexHasSixteenLowerCaseDigits) {
  EXPECT_EQ(to_hex(0), "0000000000000000");
  EXPECT_EQ(to_hex(0xABCDEF), "0000000000abcdef");
  EXPECT_EQ(to_hex(~std::uint64_t{0}), "ffffffffffffffff");
}

}  // namespace
}  // namespace lockstep
