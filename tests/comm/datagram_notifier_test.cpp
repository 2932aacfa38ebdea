#include <dirent.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <lockstep/comm/engine/datagram_notifier.hpp>

namespace lockstep {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::minutes;

/// A rank: the event on which it sleeps, and its end of the connection.
struct Sleeper {
  explicit Sleeper(microseconds awake = microseconds(0)) : remote(event, awake) {}

  EventCount event;
  DatagramNotifier remote;
};

/// True if `f` wakes the rank, or has done so a moment ago.
template <class F>
bool wakes(Sleeper& rank, const F& f, milliseconds at_most = std::chrono::seconds(60)) {
  const auto key = rank.event.prepare_wait();
  f();
  return rank.event.wait(key, at_most);
}
constexpr milliseconds a_while{100};

/// `address`'s datagram, unchanged, and as a sender would send it that guesses or sends other data.
void send_raw(const NotifierAddress& address, const void* text, std::size_t bytes) {
  const int socket = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  to.sin_port = htons(address.port);
  EXPECT_EQ(::sendto(socket, text, bytes, 0, reinterpret_cast<sockaddr*>(&to), sizeof to),
            static_cast<ssize_t>(bytes));
  ::close(socket);
}

std::vector<int> numbers_in(const char* folder) {
  std::vector<int> numbers;
  DIR* const dir = ::opendir(folder);
  while (const dirent* entry = ::readdir(dir)) {
    if (entry->d_name[0] != '.') numbers.push_back(std::stoi(entry->d_name));
  }
  std::erase(numbers, ::dirfd(dir));
  ::closedir(dir);
  std::ranges::sort(numbers);
  return numbers;
}

TEST(DatagramNotifier, WakesTheAddressedRank) {
  Sleeper a, b, c;
  const std::vector<NotifierAddress> addresses{{}, b.remote.address(), c.remote.address()};
  EXPECT_EQ(a.remote.connect(addresses), 2);
  for (int i = 0; i < 100; ++i) {
    EXPECT_TRUE(wakes(b, [&] { a.remote.notify(1); }));
    EXPECT_TRUE(wakes(c, [&] { a.remote.notify(2); }));
  }
  EXPECT_FALSE(wakes(
      c, [&] { a.remote.notify(1); }, a_while));
}

TEST(DatagramNotifier, IsNotWokenWithoutItsToken) {
  Sleeper a, b;
  NotifierAddress wrong = b.remote.address();
  wrong.token ^= 1U;
  a.remote.connect(std::vector{wrong});
  EXPECT_FALSE(wakes(
      b, [&] { a.remote.notify(0); }, a_while));
  const std::vector<std::uint64_t> twice(2, b.remote.address().token);
  EXPECT_FALSE(wakes(
      b,
      [&] {
        for (const std::size_t bytes : {0, 1, 7, 9, 16}) {
          send_raw(b.remote.address(), twice.data(), bytes);
        }
      },
      a_while));
  EXPECT_TRUE(wakes(b, [&] { send_raw(b.remote.address(), twice.data(), 8); }));
}

TEST(DatagramNotifier, SendsNothingToARankThatIsAwake) {
  Sleeper a, b{minutes(30)};
  a.remote.connect(std::vector{b.remote.address()});
  EXPECT_TRUE(wakes(b, [&] { a.remote.notify(0); }));
  EXPECT_FALSE(wakes(
      b, [&] { a.remote.notify(0); }, a_while));

  Sleeper awake_for_a_moment{milliseconds(1)};
  a.remote.connect(std::vector{awake_for_a_moment.remote.address()});
  for (int i = 0; i < 20; ++i) {
    EXPECT_TRUE(wakes(awake_for_a_moment, [&] { a.remote.notify(0); }));
    std::this_thread::sleep_for(milliseconds(2));
  }
}

TEST(DatagramNotifier, DoesNothingForAnUnreachableRank) {
  Sleeper a, b;
  NotifierAddress elsewhere = b.remote.address();
  elsewhere.network ^= 1U;
  elsewhere.count = 0;
  EXPECT_EQ(a.remote.connect(std::vector{NotifierAddress{}, elsewhere}), 0);
  EXPECT_FALSE(wakes(
      b,
      [&] {
        a.remote.notify(0);
        a.remote.notify(1);
      },
      a_while));
}

// Like addresses of container bridges: it would lead back here.
TEST(DatagramNotifier, AnAddressOfBothMachinesIsNotUsed) {
  Sleeper a, b;
  NotifierAddress elsewhere = b.remote.address();
  elsewhere.network = 0;
  EXPECT_EQ(a.remote.connect(std::vector{elsewhere}), 0);
}

// A whole network, 127/8, leads here; this machine does not list it among its own addresses.
TEST(DatagramNotifier, AllAddressesOfAnotherMachineAreTried) {
  Sleeper a, b;
  NotifierAddress elsewhere = b.remote.address();
  elsewhere.network = 0;
  elsewhere.count = 3;
  elsewhere.addresses = {};
  const auto set = [&](std::size_t i, std::initializer_list<std::uint8_t> last) {
    auto& bytes = elsewhere.addresses[i].s6_addr;
    bytes[10] = bytes[11] = 0xff;
    std::ranges::copy(last, &bytes[12]);
  };
  set(0, {240, 0, 0, 1});        // reserved: there is no route
  set(1, {255, 255, 255, 255});  // all machines: it may not
  set(2, {127, 9, 9, 9});        // also the address of b's socket
  EXPECT_EQ(a.remote.connect(std::vector{elsewhere}), 1);
  EXPECT_TRUE(wakes(b, [&] { a.remote.notify(0); }));
}

TEST(DatagramNotifier, SurvivesRanksThatHaveGone) {
  Sleeper a, c;
  auto b = std::make_unique<Sleeper>();
  a.remote.connect(std::vector{b->remote.address(), a.remote.address()});
  c.remote.connect(std::vector{a.remote.address()});
  b.reset();
  for (int i = 0; i < 100; ++i) {
    a.remote.notify(0);
    EXPECT_TRUE(wakes(a, [&] { c.remote.notify(0); }));
  }
}

TEST(DatagramNotifier, SurvivesSignals) {
  struct sigaction action {
  }, before{};
  action.sa_handler = [](int) {};  // without SA_RESTART
  ::sigaction(SIGUSR1, &action, &before);
  const auto threads = numbers_in("/proc/self/task");
  {
    Sleeper a, b;
    a.remote.connect(std::vector{b.remote.address()});
    for (int i = 0; i < 100; ++i) {
      for (const int thread : numbers_in("/proc/self/task")) {
        if (std::ranges::binary_search(threads, thread)) continue;
        ::syscall(SYS_tgkill, ::getpid(), thread, SIGUSR1);
      }
      EXPECT_TRUE(wakes(b, [&] { a.remote.notify(0); }));
    }
  }
  ::sigaction(SIGUSR1, &before, nullptr);
}

TEST(DatagramNotifier, LeavesNothingBehindAndNoSocketToOtherPrograms) {
  const auto files = numbers_in("/proc/self/fd");
  const auto threads = numbers_in("/proc/self/task").size();
  for (int i = 0; i < 100; ++i) {
    const Sleeper a, b;
    for (const int file : numbers_in("/proc/self/fd")) {
      if (std::ranges::binary_search(files, file)) continue;
      EXPECT_NE(::fcntl(file, F_GETFD) & FD_CLOEXEC, 0);
    }
  }
  EXPECT_EQ(numbers_in("/proc/self/fd"), files);
  const auto patience = Clock::now() + std::chrono::seconds(60);  // the system forgets them later
  while (numbers_in("/proc/self/task").size() > threads && Clock::now() < patience) {
    std::this_thread::sleep_for(milliseconds(1));
  }
  EXPECT_EQ(numbers_in("/proc/self/task").size(), threads);
}

TEST(DatagramNotifier, ThrowsIfThereIsNoSocket) {
  const auto files = numbers_in("/proc/self/fd");
  const int next = ::dup(0);
  ::close(next);
  rlimit before{};
  ::getrlimit(RLIMIT_NOFILE, &before);
  EventCount event;
  for (const int many : {0, 1}) {  // not even one is left; or only one
    const rlimit few{.rlim_cur = static_cast<rlim_t>(next + many), .rlim_max = before.rlim_max};
    ::setrlimit(RLIMIT_NOFILE, &few);
    EXPECT_THROW(DatagramNotifier(event, microseconds(0)), std::exception) << many;
    ::setrlimit(RLIMIT_NOFILE, &before);
    EXPECT_EQ(numbers_in("/proc/self/fd"), files);
  }
}

}  // namespace
}  // namespace lockstep
