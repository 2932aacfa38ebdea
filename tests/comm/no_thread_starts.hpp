#pragma once
#include <pthread.h>

#include <cstddef>

namespace lockstep::test {

/// While it lives, no thread of this process can be started: the stack of each would be larger than
/// the address space. One at a time.
class NoThreadStarts {
 public:
  NoThreadStarts() {
    pthread_attr_t attributes;
    pthread_getattr_default_np(&attributes);
    pthread_attr_getstacksize(&attributes, &stack_bytes_);
    set(std::size_t{1} << 60U);
    pthread_attr_destroy(&attributes);
  }
  ~NoThreadStarts() { set(stack_bytes_); }
  NoThreadStarts(const NoThreadStarts&) = delete;
  NoThreadStarts& operator=(const NoThreadStarts&) = delete;

 private:
  static void set(std::size_t stack_bytes) {
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, stack_bytes);
    pthread_setattr_default_np(&attributes);
    pthread_attr_destroy(&attributes);
  }

  std::size_t stack_bytes_ = 0;
};

}  // namespace lockstep::test
