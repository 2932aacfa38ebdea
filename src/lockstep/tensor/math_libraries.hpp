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

/// While alive, calls of oneDNN made from this thread use one thread: for those of its routines
/// whose sums depend on the number of threads.
class OneMathThread {
 public:
  OneMathThread();
  ~OneMathThread();
  OneMathThread(const OneMathThread&) = delete;
  OneMathThread& operator=(const OneMathThread&) = delete;

 private:
  int before_;
};

/// Name and version of each, for reports: oneDNN, BLAS, Kokkos.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> math_library_versions();

}  // namespace lockstep
