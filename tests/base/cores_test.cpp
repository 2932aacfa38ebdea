#include <sched.h>

#include <thread>

#include <gtest/gtest.h>

#include <lockstep/base/cores.hpp>

namespace lockstep {
namespace {

TEST(Cores, ComeFromTheThreadsAffinityMask) {
  const auto all = allowed_cores();
  ASSERT_FALSE(all.empty());
  std::thread([&] {
    for (const int core : all) {
      cpu_set_t one;
      CPU_ZERO(&one);
      CPU_SET(core, &one);
      ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
      EXPECT_EQ(allowed_cores(), std::vector<int>{core});
    }
  }).join();
  EXPECT_EQ(allowed_cores(), all);
}

}  // namespace
}  // namespace lockstep
