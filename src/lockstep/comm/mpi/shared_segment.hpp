#pragma once
#include <cstddef>
#include <memory>
#include <string>

#include <lockstep/comm/mpi/ranks.hpp>
#include <lockstep/comm/node/segment.hpp>

namespace lockstep {

/// Memory that the ranks of one node have in common: equal parts, one a rank, zeroed and first
/// touched by their owners. It is a file in /dev/shm without a name, so nothing is left behind
/// however a process ends, and its pages are reserved before anybody writes, so a /dev/shm that is
/// too small is a sentence and not a SIGBUS (which MPI_Win_allocate_shared gives at the first
/// touch).
class SharedSegment final : public Segment {
 public:
  static constexpr const char* folder = "/dev/shm";

  /// Parts of at least `bytes`, which is equal on all ranks of `node`. Collective over it. nullptr
  /// on every rank if any of them cannot have it; `why` then says what is short where.
  static std::shared_ptr<Segment> create(const MpiRanks& node, std::size_t bytes,
                                         const MpiWait& wait, std::string& why);
  ~SharedSegment() override;

 private:
  SharedSegment(std::byte* base, std::size_t bytes, std::size_t mapped)
      : Segment(base, bytes), mapped_(mapped) {}

  std::size_t mapped_;
};

}  // namespace lockstep
