#include <support/allocation_counter.hpp>

#include <link.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <new>
#include <span>
#include <string_view>

namespace {

std::atomic<std::int64_t> count{0};

/// Shared libraries that may allocate freely.
class ForeignLibraries {
 public:
  ForeignLibraries() {
    dl_iterate_phdr(
        [](dl_phdr_info* library, std::size_t, void* self) {
          static_cast<ForeignLibraries*>(self)->add(*library);
          return 0;
        },
        this);
  }

  [[nodiscard]] bool hold(const void* address) const {
    const auto at = reinterpret_cast<std::uintptr_t>(address);
    return std::any_of(ranges_.begin(), ranges_.begin() + used_,
                       [at](const Range& range) { return range.begin <= at && at < range.end; });
  }

 private:
  struct Range {
    std::uintptr_t begin, end;
  };

  void add(const dl_phdr_info& library) {
    const std::string_view path = library.dlpi_name;
    const auto is = [&](const char* part) { return path.find(part) != path.npos; };
    if (!is("libdnnl") && !is("blas") && !is("libmpi") && !is("libhdf5")) return;
    for (const auto& segment : std::span(library.dlpi_phdr, library.dlpi_phnum)) {
      if (segment.p_type != PT_LOAD || used_ == ranges_.size()) continue;
      const auto begin = library.dlpi_addr + segment.p_vaddr;
      ranges_[used_++] = {begin, begin + segment.p_memsz};
    }
  }

  std::array<Range, 64> ranges_{};
  std::size_t used_ = 0;
};

void* allocate(std::size_t bytes, std::size_t alignment, const void* caller) noexcept {
  static const ForeignLibraries foreign;
  if (!foreign.hold(caller)) count.fetch_add(1, std::memory_order_relaxed);
  const std::size_t whole = (bytes + alignment - 1) / alignment * alignment;
  return std::aligned_alloc(alignment, whole == 0 ? alignment : whole);
}

void* allocate_or_throw(std::size_t bytes, std::size_t alignment, const void* caller) {
  if (void* memory = allocate(bytes, alignment, caller)) return memory;
  throw std::bad_alloc();
}

constexpr std::size_t usual = __STDCPP_DEFAULT_NEW_ALIGNMENT__;

}  // namespace

std::int64_t lockstep::test::allocation_count() noexcept {
  return count.load(std::memory_order_relaxed);
}

// Each form is replaced separately, so that the return address is the caller's.
void* operator new(std::size_t bytes) {
  return allocate_or_throw(bytes, usual, __builtin_return_address(0));
}
void* operator new[](std::size_t bytes) {
  return allocate_or_throw(bytes, usual, __builtin_return_address(0));
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  return allocate(bytes, usual, __builtin_return_address(0));
}
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept {
  return allocate(bytes, usual, __builtin_return_address(0));
}
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return allocate_or_throw(bytes, static_cast<std::size_t>(alignment), __builtin_return_address(0));
}
void* operator new[](std::size_t bytes, std::align_val_t alignment) {
  return allocate_or_throw(bytes, static_cast<std::size_t>(alignment), __builtin_return_address(0));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
