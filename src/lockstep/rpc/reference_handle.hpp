#pragma once
#include <cstdint>
#include <memory>

#include <lockstep/rpc/message.hpp>
#include <lockstep/rpc/object_type.hpp>
#include <lockstep/rpc/options.hpp>

namespace lockstep::rpc {

class Agent;
class References;

/// A rank's share in an object, shared by the copies of an RRef.
class ReferenceHandle {
 public:
  ReferenceHandle(References& references, std::uint64_t reference, std::uint64_t fork,
                  std::uint64_t type, int owner)
      : references_(references), reference_(reference), fork_(fork), type_(type), owner_(owner) {}
  ~ReferenceHandle();
  ReferenceHandle(const ReferenceHandle&) = delete;
  ReferenceHandle& operator=(const ReferenceHandle&) = delete;
  /// The share of an object that exists here, of the calling thread's worker. Throws InputError if
  /// it is null.
  [[nodiscard]] static std::shared_ptr<ReferenceHandle> adopt(std::shared_ptr<void> object,
                                                              const ObjectType& type);

  [[nodiscard]] References& references() const noexcept { return references_; }
  [[nodiscard]] Agent& agent() const noexcept;
  [[nodiscard]] std::uint64_t reference() const noexcept { return reference_; }
  [[nodiscard]] std::uint64_t fork() const noexcept { return fork_; }  ///< 0: the owner's own
  [[nodiscard]] std::uint64_t type() const noexcept { return type_; }
  [[nodiscard]] int owner() const noexcept { return owner_; }

  [[nodiscard]] const WorkerInfo& owner_info() const;
  [[nodiscard]] bool is_owner() const noexcept;
  /// True once the owner knows this share.
  [[nodiscard]] bool is_confirmed() const;
  /// Throws Error if the share has been taken back.
  void expect_held() const;
  /// The object itself, on its owner; waits until it has been made. Throws Error on other ranks.
  [[nodiscard]] std::shared_ptr<void> local_object() const;
  /// A share for rank `to`, for a message that is being written.
  [[nodiscard]] ReferenceEntry give(int to) const;

 private:
  References& references_;
  const std::uint64_t reference_, fork_, type_;
  const int owner_;
};

}  // namespace lockstep::rpc
