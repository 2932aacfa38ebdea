// A library for LD_PRELOAD that injects one fault into a rank of a job.
//
//   BAD_LUCK="0 kill after 12345"   rank 0 gets SIGKILL 12,345 us after its start
//   BAD_LUCK="1 stop after 12345"   rank 1 gets SIGSTOP
//   BAD_LUCK="0 kill rename 3"      rank 0 gets SIGKILL at its third rename
//   BAD_LUCK="0 fail fsync 3 5"     its third fsync fails with errno 5
//   BAD_LUCK="0 clock after 12345"  its time of day jumps by up to a year every 12,345 us
//   BAD_LUCK="0 count"              no fault: the number of calls of each kind, at its end
//
// Rank -1 means all ranks. The calls are pwrite, fsync, rename and link on files in the folder
// BAD_LUCK_IN, and hash, the creation of a checksum's state (when a part of the training data is
// copied). The file BAD_LUCK_MARK.RANK is written at the moment of the fault, or with the counts.
#define XXH_STATIC_LINKING_ONLY
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

namespace {

constexpr std::array<const char*, 5> calls = {"pwrite", "fsync", "rename", "link", "hash"};

struct Order {
  bool is_mine = false;
  std::array<char, 16> fault{}, when{};
  long number = 0;
  int error = 0;
  const char *folder = nullptr, *mark = nullptr;
  int rank = 0;
  std::array<std::atomic<long>, calls.size()> seen{};
  std::atomic<long> jump_s = 0;
};
Order order;

bool is(const std::array<char, 16>& word, const char* text) {
  return std::strcmp(word.data(), text) == 0;
}

/// Uses system calls directly: the functions of the C library are replaced below.
void write_mark(const char* text) {
  if (!order.mark) return;
  std::array<char, 512> name{};
  std::snprintf(name.data(), name.size(), "%s.%d", order.mark, order.rank);
  const int file = ::open(name.data(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (file < 0) return;
  static_cast<void>(!::write(file, text, std::strlen(text)));
  ::close(file);
}

void inject_fault() {
  write_mark("now\n");
  ::kill(::getpid(), is(order.fault, "stop") ? SIGSTOP : SIGKILL);
}

void jump_repeatedly() {
  // Forwards and backwards by an hour, a month and a year.
  constexpr std::array<long, 6> jumps = {3600, -3600, 2'592'000, -31'536'000, 31'536'000, 0};
  for (std::size_t i = 0;; ++i) {
    std::this_thread::sleep_for(std::chrono::microseconds(order.number));
    order.jump_s = jumps[i % jumps.size()];
    if (i == 0) write_mark("now\n");
  }
}

__attribute__((constructor)) void begin() {
  const char *text = std::getenv("BAD_LUCK"), *rank = std::getenv("PMI_RANK");
  if (!text) return;
  int whose = 0;
  std::sscanf(text, "%d %15s %15s %ld %d", &whose, order.fault.data(), order.when.data(),
              &order.number, &order.error);
  order.rank = rank ? std::atoi(rank) : 0;
  order.folder = std::getenv("BAD_LUCK_IN");
  order.mark = std::getenv("BAD_LUCK_MARK");
  order.is_mine = whose == -1 || whose == order.rank;
  if (!order.is_mine || !is(order.when, "after")) return;
  std::thread([] {
    if (is(order.fault, "clock")) jump_repeatedly();
    std::this_thread::sleep_for(std::chrono::microseconds(order.number));
    inject_fault();
  }).detach();
}

__attribute__((destructor)) void end() {
  if (!order.is_mine || !is(order.fault, "count")) return;
  std::array<char, 256> text{};
  int at = 0;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    at += std::snprintf(text.data() + at, text.size() - static_cast<std::size_t>(at), "%s %ld\n",
                        calls[i], order.seen[i].load());
  }
  write_mark(text.data());
}

bool is_inside(const char* path) {
  return order.folder && std::strncmp(path, order.folder, std::strlen(order.folder)) == 0;
}

bool is_inside(int file) {
  std::array<char, 64> link{};
  std::array<char, 512> path{};
  std::snprintf(link.data(), link.size(), "/proc/self/fd/%d", file);
  return ::readlink(link.data(), path.data(), path.size() - 1) > 0 && is_inside(path.data());
}

/// Counts a call; true if it must fail.
bool fails(const char* call) {
  if (!order.is_mine) return false;
  std::size_t kind = 0;
  while (std::strcmp(calls[kind], call) != 0) ++kind;
  const long number = ++order.seen[kind];
  if (!is(order.when, call) || number < order.number) return false;
  if (is(order.fault, "kill") && number == order.number) inject_fault();
  if (!is(order.fault, "fail")) return false;
  if (number == order.number) write_mark("now\n");
  errno = order.error;
  return number == order.number;
}

template <class F>
F* next(const char* name) {
  return reinterpret_cast<F*>(::dlsym(RTLD_NEXT, name));
}

}  // namespace

extern "C" {

ssize_t pwrite(int file, const void* data, size_t bytes, off_t offset) {
  if (is_inside(file) && fails("pwrite")) return -1;
  return ::syscall(SYS_pwrite64, file, data, bytes, offset);
}

int fsync(int file) {
  if (is_inside(file) && fails("fsync")) return -1;
  return static_cast<int>(::syscall(SYS_fsync, file));
}

int rename(const char* from, const char* to) noexcept {
  if (is_inside(to) && fails("rename")) return -1;
  return static_cast<int>(::syscall(SYS_rename, from, to));
}

int link(const char* from, const char* to) noexcept {
  if (is_inside(to) && fails("link")) return -1;
  return static_cast<int>(::syscall(SYS_link, from, to));
}

void* aligned_alloc(size_t alignment, size_t bytes) noexcept {
  static auto* const allocate = next<void*(size_t, size_t)>("aligned_alloc");
  if (alignment == alignof(XXH3_state_t) && bytes == sizeof(XXH3_state_t))
    static_cast<void>(fails("hash"));
  return allocate(alignment, bytes);
}

int clock_gettime(clockid_t clock, timespec* time) noexcept {
  static auto* const now = next<int(clockid_t, timespec*)>("clock_gettime");
  const int status = now(clock, time);
  if (clock == CLOCK_REALTIME) time->tv_sec += order.jump_s;
  return status;
}

int gettimeofday(timeval* time, void* zone) noexcept {
  static auto* const now = next<int(timeval*, void*)>("gettimeofday");
  const int status = now(time, zone);
  time->tv_sec += order.jump_s;
  return status;
}

time_t time(time_t* to) noexcept {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  if (to) *to = now.tv_sec;
  return now.tv_sec;
}
}
