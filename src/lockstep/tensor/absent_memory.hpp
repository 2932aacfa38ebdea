#pragma once
#include <cstddef>

#include <lockstep/tensor/storage.hpp>

namespace lockstep {

/// Exchanges the memory of two storages: tensors that view one see the bytes of the other from now
/// on, at other addresses. So a tensor's memory may come and go while graphs and modules keep their
/// handles to it. Neither may be in use by an operation that has been started and has not ended.
void swap_memory(Storage& a, Storage& b) noexcept;

/// A storage in place of absent memory: addresses without memory of their own. On the host every
/// floating element reads as NaN, so that a computation that looks at it does not pass unnoticed;
/// what kernels write is lost. Throws Error if the system has no addresses left.
[[nodiscard]] IntrusivePtr<Storage> absent_memory(std::size_t bytes, Device device);

/// Whether bytes up to `end` of the storage are absent: who writes there by mistake is told.
[[nodiscard]] bool is_absent(const Storage& storage, std::size_t end) noexcept;

}  // namespace lockstep
