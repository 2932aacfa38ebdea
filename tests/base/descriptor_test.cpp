#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include <csignal>
#include <string>
#include <utility>

#include <lockstep/base/descriptor.hpp>

namespace lockstep {
namespace {

bool is_open(int number) { return fcntl(number, F_GETFD) >= 0; }

TEST(Descriptor, IsClosedOnceByItsLastOwner) {
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

TEST(AllocateFile, ReservesTheWholeFileDespiteRepeatedSignals) {
  const std::string name = "/dev/shm/lockstep-test-" + std::to_string(getpid());
  const Descriptor file(open(name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  ASSERT_TRUE(file);
  unlink(name.c_str());
  struct sigaction handler {};
  handler.sa_handler = [](int) {};
  struct sigaction before {};
  ASSERT_EQ(sigaction(SIGALRM, &handler, &before), 0);
  const itimerval often{{0, 5000}, {0, 5000}};
  setitimer(ITIMER_REAL, &often, nullptr);
  constexpr std::int64_t begin = 4096, bytes = std::int64_t{200} << 20U;
  const int error = allocate_file(file, begin, bytes);
  const itimerval never{};
  setitimer(ITIMER_REAL, &never, nullptr);
  sigaction(SIGALRM, &before, nullptr);
  EXPECT_EQ(error, 0);
  struct stat found {};
  ASSERT_EQ(fstat(file.get(), &found), 0);
  EXPECT_EQ(found.st_size, begin + bytes);
  EXPECT_GE(found.st_blocks * 512, bytes);
}

TEST(AllocateFile, ReportsWhyThereIsNoRoom) {
  const Descriptor full(open("/dev/full", O_RDWR | O_CLOEXEC));
  EXPECT_NE(allocate_file(full, 0, 4096), 0);
}

}  // namespace
}  // namespace lockstep
