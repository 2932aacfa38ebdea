#pragma once
#include <cstdint>
#include <mutex>
#include <typeinfo>
#include <utility>
#include <vector>

#include <lockstep/base/spin_lock.hpp>
#include <lockstep/rpc/error.hpp>
#include <lockstep/rpc/function.hpp>

namespace lockstep::rpc {

class OutputArchive;

/// The number that identifies a type in references: a hash of its name.
template <class T>
[[nodiscard]] std::uint64_t number_of_type() noexcept {
  static const std::uint64_t number = hash_of_name(typeid(T).name());
  return number;
}

/// The type of a remote object. One per type, for the life of the process.
struct ObjectType {
  std::uint64_t number = 0;
  /// Writes it; nullptr if it is of a type that cannot be sent.
  void (*write)(OutputArchive& archive, const void* object) = nullptr;
  /// Throws a pointer to it: a handler for a pointer to a base class gets the object as that.
  void (*raise)(void* object) = nullptr;
};

/// A cache of the positions of base classes within one object: finding one throws an exception
/// internally, which takes as long as a call. Thread-safe.
class BasesOfObject {
 public:
  /// The object as a C, which is its own class or a public base. Throws Error if it is neither.
  template <class C>
  [[nodiscard]] C& as(const ObjectType& type, void* object) {
    const std::uint64_t wanted = number_of_type<C>();
    if (type.number == wanted) return *static_cast<C*>(object);
    if (void* known = find(wanted)) return *static_cast<C*>(known);
    try {
      type.raise(object);
    } catch (C* base) {
      add(wanted, base);
      return *base;
    } catch (...) {  // NOLINT(bugprone-empty-catch): a pointer to something else
    }
    throw Error("the object's class is neither the method's class nor derived from it");
  }

 private:
  void* find(std::uint64_t number) {
    const std::lock_guard lock(lock_);
    for (const auto& [known, base] : bases_) {
      if (known == number) return base;
    }
    return nullptr;
  }
  void add(std::uint64_t number, void* base) {
    const std::lock_guard lock(lock_);
    bases_.emplace_back(number, base);
  }

  SpinLock lock_;
  std::vector<std::pair<std::uint64_t, void*>> bases_;
};

}  // namespace lockstep::rpc
