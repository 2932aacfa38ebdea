#pragma once
#include <cstdint>
#include <filesystem>

#include <lockstep/base/trace.hpp>
#include <lockstep/comm/process_group.hpp>
#include <lockstep/nn/module.hpp>

namespace lockstep::train {

/// The trace of a run on all ranks of a group: all events while it lives; each thread keeps its
/// newest.
class RunTrace {
 public:
  /// Limit of a file's events of training threads, over all ranks; some 120 bytes each.
  static constexpr std::int64_t events_of_all = std::int64_t{1} << 20;
  static constexpr std::int64_t events_of_a_thread = std::int64_t{1} << 16;  ///< at most

  /// Names the model's layers, and begins on all ranks. Collective.
  RunTrace(ProcessGroup& group, nn::Module& model);

  /// Writes the events of all ranks so far to one file that appears whole, and makes its folder
  /// (docs/guide/trace.md). It begins where all threads of all ranks still have their events.
  /// Collective. Throws AgreedError on all ranks if rank 0 cannot write.
  void write(const std::filesystem::path& file);

 private:
  ProcessGroup& group_;
  TraceSession session_;
  std::int64_t began_ns_;
};

}  // namespace lockstep::train
