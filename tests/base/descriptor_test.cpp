#include <fcntl.h>
#include <gtest/gtest.h>

#include <lockstep/base/descriptor.hpp>
#include <utility>

namespace lockstep {
namespace {

bool is_open(int number) { return fcntl(number, F_GETFD) >= 0; }

TEST(Descriptor, IsClosedOnceWhoeverOwnsItLast) {
  const int number = open("/dev/null", O_RDONLY | O_CLOEXEC);
  ASSERT_GE(number, 0);
  {
    Descriptor last;
    EXPECT_FALSE(last);
    {
      Descriptor first(number);
      Descriptor second(std::move(first));
      EXPECT_EQ(second.get(), number);
      last = std::move(second);
    }
    EXPECT_TRUE(is_open(number));
    EXPECT_EQ(last.get(), number);
  }
  EXPECT_FALSE(is_open(number));
}

}  // namespace
}  // namespace lockstep
