#include <lockstep/comm/engine/kept_memory.hpp>

#include <mutex>
#include <utility>
#include <vector>

namespace lockstep {

void keep_until_exit(std::shared_ptr<const void> memory) noexcept {
  static auto* mutex = new std::mutex;  // MPI_Finalize may run after static destructors
  static auto* kept = new std::vector<std::shared_ptr<const void>>;
  const std::lock_guard lock(*mutex);
  kept->push_back(std::move(memory));
}

void keep_until_exit(const IntrusivePtr<WorkRecord>& record) noexcept {
  keep_until_exit(std::make_shared<IntrusivePtr<WorkRecord>>(record));
}

}  // namespace lockstep
