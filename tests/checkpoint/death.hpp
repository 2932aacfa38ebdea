#pragma once
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstring>
#include <string>

#include <lockstep/base/error.hpp>
#include <lockstep/tensor/tensor.hpp>

// Kills the process by SIGKILL at a chosen moment of a save: before its nth call of pwrite, fsync
// or rename, after its rename, or while copying a tensor. The program's own definitions of these
// calls replace the C library's.

namespace lockstep::test {

inline std::atomic<const char*> fatal_call = nullptr;
inline std::atomic<int> calls_to_live = 0;

inline void die_if_it_is(const char* call) {
  const char* fatal = fatal_call.load();
  if (fatal && std::strcmp(fatal, call) == 0 && calls_to_live.fetch_sub(1) == 1)
    ::kill(::getpid(), SIGKILL);
}

/// From now on the `n`th call (from 1) of `call` is this process's last. A literal.
inline void die_at(const char* call, int n) {
  calls_to_live = n;
  fatal_call = call;
}

/// A u8 tensor whose last page cannot be read: copying it ends the process.
inline Tensor deadly_tensor(std::int64_t bytes) {
  const std::int64_t page = ::sysconf(_SC_PAGESIZE);
  void* data = ::mmap(nullptr, static_cast<std::size_t>(bytes), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) throw Error("no memory for a tensor");
  ::mprotect(static_cast<char*>(data) + bytes - page, static_cast<std::size_t>(page), PROT_NONE);
  std::signal(SIGSEGV, [](int) { ::kill(::getpid(), SIGKILL); });
  return Tensor::over(Storage::borrow(data, static_cast<std::size_t>(bytes), Device{}), 0, {bytes},
                      DType::u8);
}

}  // namespace lockstep::test
