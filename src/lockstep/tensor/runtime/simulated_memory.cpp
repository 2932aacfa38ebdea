#include <lockstep/tensor/runtime/simulated_memory.hpp>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <string>

#include <lockstep/base/failure.hpp>
#include <lockstep/tensor/device.hpp>

namespace lockstep {
namespace {

std::byte* map(std::size_t bytes, int access, int file) {
  void* const at = ::mmap(nullptr, bytes, access, MAP_SHARED | MAP_NORESERVE, file, 0);
  if (at == MAP_FAILED) {
    throw OutOfMemoryError("a simulated device needs " + std::to_string(bytes >> 30U) +
                           " GiB of address space twice, which the system refuses: " +
                           std::strerror(errno) + ". Raise the limit (ulimit -v).");
  }
  return static_cast<std::byte*>(at);
}

}  // namespace

SimulatedMemory::SimulatedMemory(int device) : device_(device) {
  struct rlimit limit {};  // a longer file would raise SIGXFSZ
  if (::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < reserved) {
    throw OutOfMemoryError(
        "a simulated device needs an in-memory file of " + std::to_string(reserved >> 30U) +
        " GiB (only the part that tensors use takes memory): raise the limit (ulimit -f)");
  }
  file_ = ::memfd_create("lockstep-simulated-device", MFD_CLOEXEC);
  if (file_ < 0 || ::ftruncate(file_, static_cast<off_t>(reserved)) != 0) {
    const std::string reason = std::strerror(errno);
    if (file_ >= 0) ::close(file_);
    throw OutOfMemoryError("the memory of a simulated device could not be created: " + reason);
  }
  try {
    forbidden_ = map(reserved, PROT_NONE, file_);
    allowed_ = map(reserved, PROT_NONE, file_);
    // Core files and forked children do not need this memory.
    static_cast<void>(::madvise(forbidden_, reserved, MADV_DONTDUMP));
    static_cast<void>(::madvise(allowed_, reserved, MADV_DONTDUMP));
  } catch (...) {
    if (forbidden_) ::munmap(forbidden_, reserved);
    ::close(file_);
    throw;
  }
  holes_[0] = reserved;
}

SimulatedMemory::~SimulatedMemory() {
  ::munmap(forbidden_, reserved);
  ::munmap(allowed_, reserved);
  ::close(file_);
}

void SimulatedMemory::open() noexcept {
  const std::lock_guard lock(access_mutex_);
  if (users_++ == 0) ::mprotect(allowed_, reserved, PROT_READ | PROT_WRITE);
}

void SimulatedMemory::close() noexcept {
  const std::lock_guard lock(access_mutex_);
  if (--users_ > 0) return;
  // Forbidding takes time for each page that is mapped: without the first call, for each that was
  // ever used, around every wait. The pages stay in the file, and are mapped again when used.
  ::madvise(allowed_, reserved, MADV_DONTNEED);
  ::mprotect(allowed_, reserved, PROT_NONE);
}

void* SimulatedMemory::allocate(std::size_t bytes) {
  if (bytes > reserved - alignment) return nullptr;
  bytes = std::max<std::size_t>(1, (bytes + alignment - 1) / alignment) * alignment;
  std::size_t at = 0;
  {
    const std::lock_guard lock(mutex_);
    const auto hole =
        std::ranges::find_if(holes_, [&](const auto& h) { return h.second >= bytes; });
    if (hole == holes_.end() || in_use_ + bytes > capacity_) return nullptr;
    at = hole->first;
    const std::size_t left = hole->second - bytes;
    holes_.erase(hole);
    if (left > 0) holes_[at + bytes] = left;
    blocks_[at].bytes = bytes;
    in_use_ += bytes;
  }
  open();
  std::memset(allowed_ + at, poison, bytes);
  close();
  return forbidden_ + at;
}

void SimulatedMemory::free(void* data) noexcept {
  std::size_t at = static_cast<std::size_t>(static_cast<std::byte*>(data) - forbidden_);
  const std::lock_guard lock(mutex_);
  const auto block = blocks_.find(at);
  if (block == blocks_.end()) return;
  std::size_t bytes = block->second.bytes;
  blocks_.erase(block);
  in_use_ -= bytes;
  open();
  std::memset(allowed_ + at, poison, bytes);
  close();
  auto after = holes_.lower_bound(at);
  if (after != holes_.end() && after->first == at + bytes) {
    bytes += after->second;
    after = holes_.erase(after);
  }
  if (after != holes_.begin()) {
    const auto before = std::prev(after);
    if (before->first + before->second == at) {
      at = before->first;
      bytes += before->second;
      holes_.erase(before);
    }
  }
  holes_[at] = bytes;
  // Whole pages of the hole that the block made or joined, without the untouched rest.
  constexpr std::size_t page = 4096;
  const std::size_t first = (at + page - 1) / page * page;
  const std::size_t last = (at + bytes) / page * page;
  if (last > first) {
    static_cast<void>(::fallocate(file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                                  static_cast<off_t>(first), static_cast<off_t>(last - first)));
  }
}

void SimulatedMemory::set_label(void* data, std::string_view label) noexcept {
  const std::lock_guard lock(mutex_);
  const auto block =
      blocks_.find(static_cast<std::size_t>(static_cast<const std::byte*>(data) - forbidden_));
  if (block == blocks_.end()) return;
  auto& kept = block->second.label;
  kept.fill('\0');
  std::copy_n(label.begin(), std::min(label.size(), kept.size() - 1), kept.begin());
}

void SimulatedMemory::set_capacity(std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  capacity_ = std::min(bytes, reserved);
}

void SimulatedMemory::report(const void* address) noexcept {
  const bool by_view = contains_for_kernels(address);
  const auto offset = static_cast<std::size_t>(static_cast<const std::byte*>(address) -
                                               (by_view ? allowed_ : forbidden_));
  char block[192] = "memory that holds no tensor";
  if (mutex_.try_lock()) {  // the failed thread may be inside the allocator
    auto found = blocks_.upper_bound(offset);
    if (found != blocks_.begin() &&
        offset < std::prev(found)->first + std::prev(found)->second.bytes) {
      --found;
      const char* const label = found->second.label.data();
      const char* const quote = *label == '\0' ? "" : "'";
      std::snprintf(block, sizeof block, "byte %zu of %zu of %s%s%s", offset - found->first,
                    found->second.bytes, quote, *label == '\0' ? "a tensor without a label" : label,
                    quote);
    }
    mutex_.unlock();
  }
  char text[512];
  const int length = std::snprintf(
      text, sizeof text,
      "lockstep: SIGSEGV: host code touched the memory of sim:%d%s: %s. Only kernels and copies "
      "may: read a tensor with to_vector(), item() or to(Device{}), and use views in for_each "
      "only.\n",
      device_, by_view ? " through a view" : "", block);
  if (length > 0) {
    const auto bytes = std::min<std::size_t>(static_cast<std::size_t>(length), sizeof text - 1);
    static_cast<void>(!::write(STDERR_FILENO, text, bytes));
  }
}

namespace {

// Read by the signal handler: filled before the handler can read it, and never emptied.
std::array<SimulatedMemory*, max_devices_of_a_type> reported{};
int reported_count = 0;
struct sigaction handler_before {};

void on_fault(int signal, siginfo_t* info, void* context) {
  for (int i = 0; i < reported_count; ++i) {
    SimulatedMemory& memory = *reported[static_cast<std::size_t>(i)];
    if (memory.contains(info->si_addr) || memory.contains_for_kernels(info->si_addr)) {
      memory.report(info->si_addr);
    }
  }
  if ((handler_before.sa_flags & SA_SIGINFO) != 0 && handler_before.sa_sigaction) {
    handler_before.sa_sigaction(signal, info, context);
  } else if (handler_before.sa_handler != SIG_DFL && handler_before.sa_handler != SIG_IGN) {
    handler_before.sa_handler(signal);
  } else {
    ::sigaction(signal, &handler_before, nullptr);  // the access is repeated and ends the process
  }
}

}  // namespace

void report_faults_of(SimulatedMemory& memory) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  reported.at(static_cast<std::size_t>(reported_count)) = &memory;
  if (++reported_count > 1) return;
  struct sigaction action {};
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  ::sigaction(SIGSEGV, &action, &handler_before);
}

}  // namespace lockstep
