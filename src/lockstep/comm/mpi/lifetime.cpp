#include <lockstep/comm/mpi/lifetime.hpp>

#include <algorithm>
#include <mutex>
#include <vector>

#include <lockstep/base/error.hpp>
#include <lockstep/comm/mpi/status.hpp>

namespace lockstep {
namespace {

struct Registry {
  std::mutex mutex;
  std::vector<IntrusivePtr<MpiCore>> cores;
  bool callback_installed = false;

  static Registry& instance() {
    static Registry* registry = new Registry;  // MPI_Finalize may run after static destructors
    return *registry;
  }
};

int finalize_begins(MPI_Comm /*self*/, int /*keyval*/, void* /*value*/, void* /*state*/) {
  auto& registry = Registry::instance();
  std::vector<IntrusivePtr<MpiCore>> cores;
  {
    const std::lock_guard lock(registry.mutex);
    cores.swap(registry.cores);
  }
  for (const auto& core : cores) core->at_finalize();
  return MPI_SUCCESS;
}

void install_callback() {
  int keyval = MPI_KEYVAL_INVALID;
  check_mpi(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, finalize_begins, &keyval, nullptr),
            "MPI_Comm_create_keyval");
  check_mpi(MPI_Comm_set_attr(MPI_COMM_SELF, keyval, nullptr), "MPI_Comm_set_attr");
  MPI_Comm_free_keyval(&keyval);  // stays valid until the attribute is deleted
}

}  // namespace

void adopt(const IntrusivePtr<MpiCore>& core) {
  auto& registry = Registry::instance();
  const std::lock_guard lock(registry.mutex);
  if (!registry.callback_installed) {
    install_callback();
    registry.callback_installed = true;
  }
  registry.cores.push_back(core);
}

void disown(const MpiCore* core) noexcept {
  auto& registry = Registry::instance();
  const std::lock_guard lock(registry.mutex);
  std::erase_if(registry.cores, [&](const auto& held) { return held.get() == core; });
}

void expect_mpi_running() {
  int initialized = 0;
  MPI_Initialized(&initialized);
  if (!initialized) {
    throw CommError(
        "make_mpi_group was called before MPI was initialised. Call MPI_Init_thread first, or make "
        "a "
        "lockstep::MpiSession at the start of main().");
  }
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (finalized) {
    throw CommError(
        "make_mpi_group was called after MPI_Finalize: MPI cannot be used any more in this "
        "process.");
  }
}

}  // namespace lockstep
