#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include <lockstep/base/intrusive_ptr.hpp>

namespace lockstep {
namespace {

struct Base : RefCounted<Base> {
  virtual ~Base() = default;
  void release() noexcept {
    ++released;
    delete this;
  }
  int value = 0;
  static inline std::atomic<int> released{0};
};
struct Derived : Base {};

class IntrusivePtrTest : public testing::Test {
 protected:
  IntrusivePtrTest() { Base::released = 0; }
};

TEST_F(IntrusivePtrTest, TheLastOwnerReleases) {
  {
    IntrusivePtr<Base> a(new Base);
    EXPECT_EQ(a->owners(), 1);
    const auto b = a;
    EXPECT_EQ(a->owners(), 2);
    EXPECT_EQ(a, b);
    a = IntrusivePtr<Base>();
    EXPECT_FALSE(a);
    EXPECT_EQ(b->owners(), 1);
    EXPECT_EQ(Base::released, 0);
  }
  EXPECT_EQ(Base::released, 1);
}

TEST_F(IntrusivePtrTest, MovingDoesNotCount) {
  IntrusivePtr<Base> a(new Base);
  auto b = std::move(a);
  EXPECT_EQ(a.get(), nullptr);  // NOLINT(bugprone-use-after-move): that is the claim
  EXPECT_EQ(b->owners(), 1);
  a = std::move(b);
  EXPECT_EQ(a->owners(), 1);
  EXPECT_EQ(Base::released, 0);
}

TEST_F(IntrusivePtrTest, AssigningToItselfKeepsTheRecord) {
  IntrusivePtr<Base> a(new Base);
  const auto& same = a;
  a = same;
  EXPECT_EQ(a->owners(), 1);
  EXPECT_EQ(Base::released, 0);
}

TEST_F(IntrusivePtrTest, AssignmentReleasesTheFormerRecord) {
  IntrusivePtr<Base> a(new Base);
  a = IntrusivePtr<Base>(new Base);
  EXPECT_EQ(Base::released, 1);
  EXPECT_EQ(a->owners(), 1);
}

TEST_F(IntrusivePtrTest, ADerivedRecordConvertsToItsBase) {
  IntrusivePtr<Derived> derived(new Derived);
  const IntrusivePtr<Base> base = derived;
  EXPECT_EQ(base->owners(), 2);
  EXPECT_EQ(base.get(), derived.get());
}

TEST_F(IntrusivePtrTest, IsOnePointerWide) {
  static_assert(sizeof(IntrusivePtr<Base>) == sizeof(void*));
  static_assert(std::is_nothrow_move_constructible_v<IntrusivePtr<Base>>);
}

TEST_F(IntrusivePtrTest, TwoThreadsReleaseARecordOnce) {
  constexpr int rounds = 2000;
  for (int i = 0; i < rounds; ++i) {
    IntrusivePtr<Base> record(new Base);
    std::thread other([mine = record]() mutable {
      for (int k = 0; k < 20; ++k) {
        const auto copy = mine;
      }
      mine = IntrusivePtr<Base>();
    });
    for (int k = 0; k < 20; ++k) {
      const auto copy = record;
    }
    record = IntrusivePtr<Base>();
    other.join();
  }
  EXPECT_EQ(Base::released, rounds);
}

}  // namespace
}  // namespace lockstep
