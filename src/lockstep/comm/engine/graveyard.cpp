#include <lockstep/comm/engine/graveyard.hpp>

#include <mutex>
#include <utility>
#include <vector>

namespace lockstep {
namespace {

struct Graveyard {
  std::mutex mutex;
  std::vector<IntrusivePtr<WorkRecord>> records;
  std::vector<std::shared_ptr<const void>> memories;

  static Graveyard& instance() {
    static auto* graveyard = new Graveyard;  // MPI_Finalize may run after static destructors
    return *graveyard;
  }
};

}  // namespace

void bury_for_good(const IntrusivePtr<WorkRecord>& record) noexcept {
  auto& graveyard = Graveyard::instance();
  const std::lock_guard lock(graveyard.mutex);
  graveyard.records.push_back(record);
}

void bury_for_good(std::shared_ptr<const void> memory) noexcept {
  auto& graveyard = Graveyard::instance();
  const std::lock_guard lock(graveyard.mutex);
  graveyard.memories.push_back(std::move(memory));
}

}  // namespace lockstep
