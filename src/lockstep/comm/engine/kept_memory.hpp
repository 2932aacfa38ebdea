#pragma once
#include <memory>

#include <lockstep/comm/work.hpp>

namespace lockstep {

/// Keeps a record and its tensors for the life of the process: MPI or a device may still write to
/// them. Thread-safe.
void keep_until_exit(const IntrusivePtr<WorkRecord>& record) noexcept;
/// The same for memory of another kind.
void keep_until_exit(std::shared_ptr<const void> memory) noexcept;

}  // namespace lockstep
