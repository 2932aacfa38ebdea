#include <gtest/gtest.h>

#include <cstdint>
#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

#include <lockstep/base/pool.hpp>
#include <lockstep/base/pooled_list.hpp>

namespace lockstep {
namespace {

// Each test uses a type of its own, so each has a pool of its own.
template <int>
struct Record {
  explicit Record(int v, bool fail = false) : value(v) {
    if (fail) throw std::runtime_error("constructor failed");
    ++alive;
  }
  ~Record() { --alive; }
  int value;
  double payload[8] = {};
  static inline int alive = 0;
};

TEST(ObjectPool, ARecycledCellIsUsedAgain) {
  using R = Record<0>;
  auto& pool = ObjectPool<R>::instance();
  R* first = pool.make(1);
  EXPECT_EQ(first->value, 1);
  EXPECT_EQ(R::alive, 1);
  pool.recycle(first);
  EXPECT_EQ(R::alive, 0);
  R* second = pool.make(2);
  EXPECT_EQ(second, first);
  EXPECT_EQ(second->value, 2);
  pool.recycle(second);
}

TEST(ObjectPool, LiveObjectsHaveCellsOfTheirOwn) {
  auto& pool = ObjectPool<Record<1>>::instance();
  std::vector<Record<1>*> records;
  for (int i = 0; i < 100; ++i) records.push_back(pool.make(i));
  EXPECT_EQ(std::set<Record<1>*>(records.begin(), records.end()).size(), 100U);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(records[static_cast<std::size_t>(i)]->value, i);
  for (auto* record : records) pool.recycle(record);
}

TEST(ObjectPool, AThrowingConstructorGivesItsCellBack) {
  auto& pool = ObjectPool<Record<2>>::instance();
  auto* first = pool.make(1);
  pool.recycle(first);
  EXPECT_THROW((void)pool.make(1, true), std::runtime_error);
  EXPECT_EQ(Record<2>::alive, 0);
  auto* again = pool.make(3);
  EXPECT_EQ(again, first);
  pool.recycle(again);
}

TEST(ObjectPool, KeepsAlignmentsAboveTheUsual) {
  struct alignas(128) Wide {
    char bytes[3] = {};
  };
  auto& pool = ObjectPool<Wide>::instance();
  Wide* a = pool.make();
  Wide* b = pool.make();
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(a) % 128, 0U);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(b) % 128, 0U);
  pool.recycle(a);
  pool.recycle(b);
}

TEST(ObjectPool, ThreadsNeverShareACell) {
  struct Cell {
    int owner = -1;
  };
  std::vector<std::thread> threads;
  std::vector<int> broken(4, 0);
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([t, &broken] {
      auto& pool = ObjectPool<Cell>::instance();
      for (int i = 0; i < 2000; ++i) {
        Cell* a = pool.make();
        Cell* b = pool.make();
        a->owner = t;
        b->owner = t + 100;
        if (a->owner != t || b->owner != t + 100) ++broken[static_cast<std::size_t>(t)];
        pool.recycle(a);
        pool.recycle(b);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(broken, std::vector<int>(4, 0));
}

TEST(PooledList, HoldsAnyNumberOfElementsInOrder) {
  for (int n = 0; n < 14; ++n) {
    PooledList<int, 4> list;
    for (int i = 0; i < n; ++i) list.push_back(i);
    PooledList<int, 4> moved(std::move(list));
    int next = 0;
    for (const int element : moved) EXPECT_EQ(element, next++);
    EXPECT_EQ(next, n);
    list.push_back(7);  // as good as new
    EXPECT_EQ(*list.begin(), 7);
  }
}

}  // namespace
}  // namespace lockstep
