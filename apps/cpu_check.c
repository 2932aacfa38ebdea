/* Linked into every app and compiled for plain x86-64: ends the program with one sentence, before
 * anything else runs, on a processor that lacks instructions the rest was compiled for. Without it
 * such a node ends in SIGILL somewhere. Depends on libc alone; the list comes from
 * cmake/LockstepApp.cmake, which asks the compiler what LOCKSTEP_ARCH switches on. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "lockstep_cpu_features.h"

#ifdef __x86_64__
__attribute__((constructor(101))) static void check_cpu(void) {
  __builtin_cpu_init();
#define REQUIRE(feature)                                                                  \
  if (!__builtin_cpu_supports(feature)) {                                                 \
    char host[256] = "this node";                                                         \
    gethostname(host, sizeof(host) - 1);                                                  \
    fprintf(stderr,                                                                       \
            "This program was built for processors with " feature                         \
            " (LOCKSTEP_ARCH=" LOCKSTEP_CPU_ARCH                                          \
            "), which the processor of %s lacks. Build it on such a node, or build it "   \
            "for all of them: cmake --preset release -DLOCKSTEP_ARCH=x86-64-v3 && cmake " \
            "--build --preset release\n",                                                 \
            host);                                                                        \
    _Exit(2);                                                                             \
  }
  LOCKSTEP_CPU_FEATURES(REQUIRE)
#undef REQUIRE
}
#endif
