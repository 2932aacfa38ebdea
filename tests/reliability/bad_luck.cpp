// Preloaded into the ranks of a job (LD_PRELOAD): something goes wrong in one of them.
//   BAD_LUCK="0 kill after 12345"   rank 0 gets SIGKILL 12,345 us after it was started
//   BAD_LUCK="1 stop after 12345"   rank 1 is stopped (SIGSTOP)
//   BAD_LUCK="0 kill rename 3"      SIGKILL instead of its third rename
//   BAD_LUCK="0 fail fsync 3 5"     its third fsync fails with errno 5
//   BAD_LUCK="0 clock after 12345"  its time of day jumps by up to a year, again and again so soon
// Rank -1 stands for all of them. Calls are those on files in the folder BAD_LUCK_IN: pwrite,
// fsync, rename, link; and hash, the making of a checksum's state, when the copying and hashing of
// a part of the training's begins. At the moment the file BAD_LUCK_MARK.RANK is written.
// BAD_LUCK="0 count": how many calls of each there were is written there in the end.
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

struct Luck {
  bool is_mine = false;
  std::array<char, 16> what{}, when{};
  long number = 0;
  int error = 0;
  const char *folder = nullptr, *mark = nullptr;
  int rank = 0;
  std::array<std::atomic<long>, calls.size()> seen{};
  std::atomic<long> jump_s = 0;
};
Luck luck;

bool is(const std::array<char, 16>& word, const char* text) {
  return std::strcmp(word.data(), text) == 0;
}

/// With the system's own calls: those of the C library are the ones that go wrong.
void write_mark(const char* text) {
  if (!luck.mark) return;
  std::array<char, 512> name{};
  std::snprintf(name.data(), name.size(), "%s.%d", luck.mark, luck.rank);
  const int file = ::open(name.data(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (file < 0) return;
  static_cast<void>(!::write(file, text, std::strlen(text)));
  ::close(file);
}

void go_wrong() {
  write_mark("now\n");
  ::kill(::getpid(), is(luck.what, "stop") ? SIGSTOP : SIGKILL);
}

void jump_again_and_again() {
  // Forwards and backwards, by an hour, a month, a year.
  constexpr std::array<long, 6> jumps = {3600, -3600, 2'592'000, -31'536'000, 31'536'000, 0};
  for (std::size_t i = 0;; ++i) {
    std::this_thread::sleep_for(std::chrono::microseconds(luck.number));
    luck.jump_s = jumps[i % jumps.size()];
    if (i == 0) write_mark("now\n");
  }
}

__attribute__((constructor)) void begin() {
  const char *order = std::getenv("BAD_LUCK"), *rank = std::getenv("PMI_RANK");
  if (!order) return;
  int whose = 0;
  std::sscanf(order, "%d %15s %15s %ld %d", &whose, luck.what.data(), luck.when.data(),
              &luck.number, &luck.error);
  luck.rank = rank ? std::atoi(rank) : 0;
  luck.folder = std::getenv("BAD_LUCK_IN");
  luck.mark = std::getenv("BAD_LUCK_MARK");
  luck.is_mine = whose == -1 || whose == luck.rank;
  if (!luck.is_mine || !is(luck.when, "after")) return;
  std::thread([] {
    if (is(luck.what, "clock")) jump_again_and_again();
    std::this_thread::sleep_for(std::chrono::microseconds(luck.number));
    go_wrong();
  }).detach();
}

__attribute__((destructor)) void end() {
  if (!luck.is_mine || !is(luck.what, "count")) return;
  std::array<char, 256> text{};
  int at = 0;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    at += std::snprintf(text.data() + at, text.size() - static_cast<std::size_t>(at), "%s %ld\n",
                        calls[i], luck.seen[i].load());
  }
  write_mark(text.data());
}

bool is_inside(const char* path) {
  return luck.folder && std::strncmp(path, luck.folder, std::strlen(luck.folder)) == 0;
}

bool is_inside(int file) {
  std::array<char, 64> link{};
  std::array<char, 512> path{};
  std::snprintf(link.data(), link.size(), "/proc/self/fd/%d", file);
  return ::readlink(link.data(), path.data(), path.size() - 1) > 0 && is_inside(path.data());
}

/// Counts a call; true if it is to fail.
bool fails(const char* call) {
  if (!luck.is_mine) return false;
  std::size_t kind = 0;
  while (std::strcmp(calls[kind], call) != 0) ++kind;
  const long number = ++luck.seen[kind];
  if (!is(luck.when, call) || number < luck.number) return false;
  if (is(luck.what, "kill") && number == luck.number) go_wrong();
  if (!is(luck.what, "fail")) return false;
  if (number == luck.number) write_mark("now\n");
  errno = luck.error;
  return number == luck.number;
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
  if (clock == CLOCK_REALTIME) time->tv_sec += luck.jump_s;
  return status;
}

int gettimeofday(timeval* time, void* zone) noexcept {
  static auto* const now = next<int(timeval*, void*)>("gettimeofday");
  const int status = now(time, zone);
  time->tv_sec += luck.jump_s;
  return status;
}

time_t time(time_t* to) noexcept {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  if (to) *to = now.tv_sec;
  return now.tv_sec;
}
}
