#pragma once
#include <string>
#include <utility>
#include <vector>

namespace lockstep {

/// Lets oneDNN (through OpenMP) use `threads` threads for calls made from this thread; OpenBLAS,
/// which gets small products only, one in the whole process. Without this both take every core of
/// the machine, which ranks that share it pay for.
void set_math_threads(int threads);

/// How many threads calls of oneDNN made from this thread may use.
[[nodiscard]] int math_threads();

/// While it lives, oneDNN calls from this thread use this number of threads.
class MathThreadsGuard {
 public:
  explicit MathThreadsGuard(int threads);
  ~MathThreadsGuard();
  MathThreadsGuard(const MathThreadsGuard&) = delete;
  MathThreadsGuard& operator=(const MathThreadsGuard&) = delete;

 private:
  int before_, now_;
};

/// One thread: for oneDNN routines whose sums depend on the number of threads.
struct OneMathThread : MathThreadsGuard {
  OneMathThread() : MathThreadsGuard(1) {}
};

/// Name and version of each, for reports: oneDNN, BLAS, Kokkos.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> math_library_versions();

}  // namespace lockstep
