#include <lockstep/tensor/math_libraries.hpp>

#include <dlfcn.h>
#include <dnnl.h>

#include <mutex>

#include <lockstep/tensor/view.hpp>

namespace lockstep {
namespace {

// Looked up at run time: the installation decides which OpenMP and which BLAS the process has. A
// BLAS without threads, or a process without OpenMP, lacks the function.
void call_if_available(const char* function, int threads) {
  using SetThreads = void (*)(int);
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-reinterpret-cast): what dlsym is for
  if (auto* const set = reinterpret_cast<SetThreads>(dlsym(RTLD_DEFAULT, function))) set(threads);
}

/// OpenMP's functions, looked up once: every matrix product uses the guard below.
struct OpenMp {
  void (*set_threads)(int);
  int (*max_threads)();

  static const OpenMp& instance() {
    // NOLINTBEGIN(cppcoreguidelines-pro-type-reinterpret-cast): what dlsym is for
    static const OpenMp openmp{
        reinterpret_cast<void (*)(int)>(dlsym(RTLD_DEFAULT, "omp_set_num_threads")),
        reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, "omp_get_max_threads"))};
    // NOLINTEND(cppcoreguidelines-pro-type-reinterpret-cast)
    return openmp;
  }
};

std::vector<std::pair<std::string, std::string>> ask_math_libraries() {
  const auto* onednn = dnnl_version();
  const auto dotted = [](int major, int minor, int patch) {
    return std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(patch);
  };
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-reinterpret-cast): what dlsym is for
  auto* const openblas =
      reinterpret_cast<const char* (*)()>(dlsym(RTLD_DEFAULT, "openblas_get_config"));
  return {
      {"oneDNN", dotted(onednn->major, onednn->minor, onednn->patch)},
      {"BLAS", openblas ? openblas() : "unknown"},
      {"Kokkos", dotted(KOKKOS_VERSION / 10000, KOKKOS_VERSION / 100 % 100, KOKKOS_VERSION % 100)}};
}

}  // namespace

int math_threads() {
  const OpenMp& openmp = OpenMp::instance();
  return openmp.set_threads && openmp.max_threads ? openmp.max_threads() : 1;
}

MathThreadsGuard::MathThreadsGuard(int threads) : before_(math_threads()), now_(threads) {
  if (before_ != now_ && OpenMp::instance().set_threads) OpenMp::instance().set_threads(now_);
}

MathThreadsGuard::~MathThreadsGuard() {
  if (before_ != now_ && OpenMp::instance().set_threads) OpenMp::instance().set_threads(before_);
}

void set_math_threads(int threads) {
  call_if_available("omp_set_num_threads", threads);
  // BLAS computes only small products, where threads cost more than they gain. It keeps the number
  // of threads in globals that no lock protects.
  static std::mutex blas;
  const std::lock_guard lock(blas);
  call_if_available("openblas_set_num_threads", 1);
}

std::vector<std::pair<std::string, std::string>> math_library_versions() {
  // OpenBLAS writes its answer into one buffer for all threads.
  static const auto versions = ask_math_libraries();
  return versions;
}

}  // namespace lockstep
