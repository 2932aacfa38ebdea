#pragma once
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>
#include <typeinfo>

#include <lockstep/rpc/message.hpp>
#include <lockstep/rpc/signature.hpp>

namespace lockstep::rpc {

class Execution;

/// A pointer to a function or to a member function. Its bytes do not identify it: a pointer to a
/// virtual member function is an offset in its class's table.
struct FunctionPointer {
  std::array<std::byte, 16> bytes{};
  const std::type_info* type = &typeid(void);  ///< of the pointer, without noexcept

  [[nodiscard]] bool operator==(const FunctionPointer& other) const noexcept {
    return bytes == other.bytes && *type == *other.type;
  }
};

/// A function that other ranks may call: only registered ones can be called.
struct Function {
  const char* name;
  FunctionPointer pointer;
  const char* signature_text;  ///< its type's name
  void (*execute)(Execution&);
  std::uint64_t name_hash = 0, signature = 0;
  /// About how long it takes; decides which thread executes it (thread_pool.hpp).
  std::atomic<std::int64_t> usual_ns = 0;
  Function* next_by_name = nullptr;
  Function* next_by_pointer = nullptr;
};

template <class F>
[[nodiscard]] FunctionPointer pointer_to(F function) noexcept {
  FunctionPointer pointer{.type = &typeid(typename detail::SignatureOf<F>::Plain)};
  static_assert(sizeof(F) <= sizeof(pointer.bytes) && std::is_trivially_copyable_v<F>);
  std::memcpy(pointer.bytes.data(), &function, sizeof(F));
  return pointer;
}

/// Adds `function`, which must live as long as the process. The same one may come twice, from two
/// sources; two with one name are reported by init(). Thread-safe.
void add_function(Function& function);
/// nullptr if there is none. Thread-safe, without locks.
[[nodiscard]] Function* find_function(const FunctionPointer& pointer) noexcept;
[[nodiscard]] Function* find_function(std::uint64_t name_hash) noexcept;
/// Throws Error: the program calls a function that is not registered.
[[noreturn]] void throw_unregistered();
/// A sentence about two functions with one name; empty if there are none.
[[nodiscard]] std::string registered_twice();

/// A hash of a type's name, the same in all programs made by compilers of one ABI.
[[nodiscard]] std::uint64_t hash_of_name(const char* name) noexcept;

}  // namespace lockstep::rpc
