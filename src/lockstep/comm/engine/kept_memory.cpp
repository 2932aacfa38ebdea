#include <lockstep/comm/engine/kept_memory.hpp>

#include <mutex>
#include <utility>
#include <vector>

namespace lockstep {
namespace {

struct KeptMemory {
  std::mutex mutex;
  std::vector<std::shared_ptr<const void>> all;

  static KeptMemory& instance() {
    static auto* kept = new KeptMemory;  // MPI_Finalize may run after static destructors
    return *kept;
  }
};

}  // namespace

void keep_until_exit(std::shared_ptr<const void> memory) noexcept {
  auto& kept = KeptMemory::instance();
  const std::lock_guard lock(kept.mutex);
  kept.all.push_back(std::move(memory));
}

void keep_until_exit(const IntrusivePtr<WorkRecord>& record) noexcept {
  keep_until_exit(std::make_shared<IntrusivePtr<WorkRecord>>(record));
}

}  // namespace lockstep
