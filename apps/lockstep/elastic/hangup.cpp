#include "hangup.hpp"

#include <sys/syscall.h>
#include <unistd.h>

#include <csignal>

namespace lockstep::elastic {
namespace {

bool was_ignored = false;

/// By the system call itself: sanitizers are not ready for sigaction() yet.
[[gnu::no_sanitize("address", "thread", "undefined")]] void look() {
  unsigned long action[8]{};  // as the kernel has it: the handler comes first
  constexpr unsigned long mask_bytes = 8, ignore = 1;
  syscall(SYS_rt_sigaction, SIGHUP, nullptr, action, mask_bytes);
  was_ignored = action[0] == ignore;
}

// Of an executable: called before the constructors of the libraries that it is linked with.
[[gnu::section(".preinit_array"), gnu::used]] void (*const look_first)() = look;

}  // namespace

bool hangup_was_ignored() noexcept { return was_ignored; }

}  // namespace lockstep::elastic
