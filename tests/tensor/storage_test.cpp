#include <lockstep/tensor/storage.hpp>

#include <cstdint>
#include <thread>
#include <vector>

#include <lockstep/base/error.hpp>

namespace lockstep {
namespace {

TEST(Storage, IsAlignedAndAtLeastAsLargeAsAsked) {
  for (const std::size_t bytes : {0U, 1U, 64U, 65U, 1000U, 4097U, 100000U}) {
    const auto storage = Storage::allocate(bytes);
    EXPECT_GE(storage->bytes(), bytes);
    EXPECT_LE(storage->bytes(), bytes + bytes / 4 + 64);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(storage->data()) % 64, 0U);
  }
}

TEST(Storage, IsReusedAfterItIsFreed) {
  void* before = Storage::allocate(12345)->data();
  const auto system = memory_stats().system_allocations;
  EXPECT_EQ(Storage::allocate(12345)->data(), before);
  EXPECT_EQ(Storage::allocate(12300)->data(), before);  // the same size class
  EXPECT_EQ(memory_stats().system_allocations, system);
}

TEST(Storage, StatsFollowUse) {
  const auto start = memory_stats();
  std::int64_t held = 0;
  {
    const auto a = Storage::allocate(1 << 20), b = Storage::allocate(3000);
    held = static_cast<std::int64_t>(a->bytes() + b->bytes());
    EXPECT_EQ(memory_stats().in_use - start.in_use, held);
    EXPECT_GE(memory_stats().peak_in_use, memory_stats().in_use);
  }
  EXPECT_EQ(memory_stats().in_use, start.in_use);
  EXPECT_GE(memory_stats().cached, held);
}

TEST(Storage, ReturnsToTheSystemIfUncached) {
  constexpr std::size_t bytes = 3'333'333;
  const auto start = memory_stats();
  {
    const auto storage = Storage::allocate_uncached(bytes);
    EXPECT_EQ(storage->bytes(), bytes);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(storage->data()) % 64, 0U);
    static_cast<unsigned char*>(storage->data())[bytes - 1] = 7;
    EXPECT_EQ(memory_stats().in_use - start.in_use, static_cast<std::int64_t>(bytes));
    EXPECT_EQ(memory_stats().system_allocations, start.system_allocations + 1);
  }
  EXPECT_EQ(memory_stats().in_use, start.in_use);
  EXPECT_EQ(memory_stats().cached, start.cached);
}

TEST(Storage, LivesAsLongAsItsLastOwner) {
  auto first = Storage::allocate(100);
  auto second = first;
  first = {};
  static_cast<unsigned char*>(second->data())[99] = 7;  // ASan tells if it were gone
  EXPECT_EQ(second->owners(), 1);
}

TEST(Storage, BorrowedMemoryGoesBackToItsDeleterOnce) {
  int deletions = 0;
  unsigned char memory[16] = {};
  {
    const auto storage = Storage::borrow(
        memory, sizeof(memory), {},
        [](void*, void* context) noexcept { ++*static_cast<int*>(context); }, &deletions);
    const auto shared = storage;
    EXPECT_EQ(shared->data(), memory);
    EXPECT_EQ(deletions, 0);
  }
  EXPECT_EQ(deletions, 1);
}

TEST(Storage, OfAnAbsurdSizeIsRefused) {
  try {
    static_cast<void>(Storage::allocate(std::size_t{1} << 62U));
    FAIL() << "2^62 bytes were had";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("memory"), std::string::npos) << error.what();
  }
}

TEST(Storage, ThreadsAllocateAndFreeAtOnce) {
  const auto in_use = memory_stats().in_use;
  {
    std::vector<std::jthread> team;
    for (unsigned t = 0; t < 4; ++t) {
      team.emplace_back([t] {
        for (std::size_t i = 0; i < 2000; ++i) {
          const auto storage = Storage::allocate(64 + (i * 37 + t) % 5000);
          auto* bytes = static_cast<unsigned char*>(storage->data());
          bytes[0] = bytes[63] = static_cast<unsigned char>(t);
          ASSERT_EQ(bytes[63], t);
        }
      });
    }
  }
  EXPECT_EQ(memory_stats().in_use, in_use);
}

}  // namespace
}  // namespace lockstep
