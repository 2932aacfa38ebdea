#pragma once
#include <cstdint>
#include <map>
#include <memory>

#include <lockstep/base/clock.hpp>
#include <lockstep/rpc/future.hpp>
#include <lockstep/rpc/object_type.hpp>

namespace lockstep::rpc {

/// An object, or the place reserved for one.
struct OwnedObject {
  std::shared_ptr<void> object;
  const ObjectType* type = nullptr;
  mutable BasesOfObject bases;
  IntrusivePtr<ValueState<void>> ready = ValueState<void>::make();

  bool begun = false;                  ///< its create() has arrived, or it was made here
  Clock::time_point deadline;          ///< of its create()
  int handles = 0;                     ///< of the owner's own
  std::map<std::uint64_t, int> forks;  ///< and the rank that holds each

  /// Throws Error if the object's type is not the reference's.
  void expect_type(std::uint64_t number) const {
    if (number == type->number) return;
    throw Error("the object's type differs from the reference's");
  }
};

}  // namespace lockstep::rpc
