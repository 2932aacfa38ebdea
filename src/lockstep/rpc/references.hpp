#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include <lockstep/base/clock.hpp>
#include <lockstep/rpc/delayed_messages.hpp>
#include <lockstep/rpc/message.hpp>
#include <lockstep/rpc/object_type.hpp>
#include <lockstep/rpc/owned_object.hpp>
#include <lockstep/rpc/reference_handle.hpp>

// The lifetime of remote objects.
//
// An object lives on its owner, the rank that a function was called on by remote(), or that made an
// RRef of a value. Every rank that holds an RRef to it has a share. Each user's share has its own
// number, its fork, which is in the owner's list. The object is deleted when the list is empty and
// the owner itself holds no RRef. There are five messages. They have no answers, and may overtake
// each other and every call:
//
//   create(reference, fork)   creator to owner: call this, keep the result; fork is the creator's
//   add(reference, fork)      a user that was given a share by another user, to the owner
//   confirm(fork)             owner to a user: fork is in the list; answers create and add
//   accept(fork)              to who gave the share: it is in the list, or came to the owner itself
//   end(reference, fork)      a user to the owner: fork is not needed any more
//
// Assumed: no message is lost while both ranks live, and none comes twice. Guaranteed, with why:
//
// G1 An object lives while anybody holds, or is being sent, a reference to it. By G3 and G4 the
//    owner's list has, at any time, a fork whose user has not sent its end.
// G2 It goes when the last reference has gone and the messages have come: every share ends with one
//    end(), every list shrinks by it.
// G3 A share does not send its end before the owner has confirmed it: so an end never comes before
//    what it ends, in whatever order messages travel.
// G4 Who gives a share away keeps its own until accept(): until then its own fork, which is in the
//    list or will be (create, add) before its end, keeps the object. The owner, when it gives a
//    share away, enters the fork itself, before the message leaves.
// G5 A question (to_here, a method) keeps the share of who asks until it is answered, or its
//    deadline has passed: so no end overtakes it.
// G6 A question or an add() may come before the create() that it refers to: it waits for it.
// G7 What a creating function threw is kept in the object's place, and every to_here throws it.
// G8 A message that is refused, or whose function does not exist, still has its references taken
//    over and then dropped: they end like others.
// G9 At a graceful shutdown, when no call is left, every share that is still held is taken back:
//    its RRefs cannot be used any more, its end is sent; what is left after that is named.

namespace lockstep::rpc {

class Agent;

/// The numbers of references on a rank.
struct ReferenceCounts {
  std::int64_t owned = 0;          ///< objects
  std::int64_t forks = 0;          ///< shares of others in them
  std::int64_t users = 0;          ///< shares in other ranks' objects, including those about to end
  std::int64_t given = 0;          ///< shares given to other ranks that have not accepted them yet
  std::int64_t delayed = 0;        ///< messages: delay_messages()
  std::int64_t in_the_making = 0;  ///< objects, within the deadlines of their create()
};

/// All shares of a rank, and the objects that it owns. Thread-safe.
class References {
 public:
  explicit References(Agent& agent);
  ~References();
  References(const References&) = delete;
  References& operator=(const References&) = delete;

  [[nodiscard]] Agent& agent() const noexcept { return agent_; }

  // ---- shares
  /// Of an object that a rank is about to be asked to make.
  [[nodiscard]] std::shared_ptr<ReferenceHandle> create(int owner, std::uint64_t type);
  /// That rank was not asked after all.
  void forget(const ReferenceHandle& handle) noexcept;
  /// After it was asked: where it is this one, the owner's own share instead.
  [[nodiscard]] std::shared_ptr<ReferenceHandle> settled(std::shared_ptr<ReferenceHandle> handle);
  /// The share of an object that exists here. Throws InputError if it is null.
  [[nodiscard]] std::shared_ptr<ReferenceHandle> adopt(std::shared_ptr<void> object,
                                                       const ObjectType& type);
  /// Makes a share for rank `to`, for a message that is being written.
  [[nodiscard]] ReferenceEntry give(const ReferenceHandle& handle, int to);
  /// Takes such a share back if the message was not sent.
  void take_back(const ReferenceEntry& entry) noexcept;
  /// Takes over the shares that a message brings; into its handles().
  void take_over(IncomingMessage& message);
  [[nodiscard]] bool is_confirmed(const ReferenceHandle& handle) const;
  void drop(const ReferenceHandle& handle) noexcept;
  /// Throws Error if the share has been taken back.
  void expect_held(const ReferenceHandle& handle) const;

  // ---- objects
  /// A create() has come.
  void begin(std::uint64_t reference, std::uint64_t fork, int creator, Clock::time_point deadline);
  void complete(std::uint64_t reference, std::shared_ptr<void> object, const ObjectType& type);
  void complete(std::uint64_t reference, std::exception_ptr failure);
  /// The place of an object, whether or not it exists yet: see OwnedObject::ready. If its creation
  /// has not started, waits until `deadline`. Throws Error if there is still none.
  [[nodiscard]] std::shared_ptr<OwnedObject> find(std::uint64_t reference,
                                                  Clock::time_point deadline);

  // ---- messages
  void handle(IncomingMessage& message);
  /// For tests: from now on each message of these waits for a random time, `longest` at most.
  void delay_messages(std::uint64_t seed, std::chrono::microseconds longest);

  // ---- ending
  [[nodiscard]] ReferenceCounts counts() const;
  /// Shares that some RRef holds.
  [[nodiscard]] std::int64_t held() const;
  /// Ends every one of them.
  void take_all_back();
  /// The objects that are left, and their holders.
  [[nodiscard]] std::vector<std::string> left() const;
  /// Drops everything.
  void clear() noexcept;

 private:
  enum class Action : std::uint8_t { add = 1, confirm, accept, end };
  struct Control {
    Action action = Action::add;
    int to = -1;
    std::uint64_t reference = 0, fork = 0;
  };
  /// Messages are sent when the lock has been left.
  struct Outbox {
    std::vector<Control> messages;
  };
  struct User {
    std::uint64_t reference = 0;
    int owner = -1;
    int parent = -1;  ///< rank that waits for accept(); -1: none
    int given = 0;    ///< shares that are not accepted yet
    bool confirmed = false;
    bool held = true;
  };
  struct Given {
    std::uint64_t fork = 0;  ///< fork whose user gave it
    int to = -1;
  };
  using Objects = std::unordered_map<std::uint64_t, std::shared_ptr<OwnedObject>>;
  using Users = std::unordered_map<std::uint64_t, User>;

  [[nodiscard]] std::uint64_t draw() noexcept;
  OwnedObject& place_of(std::uint64_t reference);
  /// Objects to delete are destroyed after the lock is released.
  [[nodiscard]] std::shared_ptr<OwnedObject> remove_if_unused(std::uint64_t reference);
  [[nodiscard]] std::shared_ptr<OwnedObject> remove_if_unused(Objects::iterator found);
  void end_if_possible(std::uint64_t fork, Outbox& outbox);
  void accepted(std::uint64_t fork, Outbox& outbox);
  void send(const Outbox& outbox) noexcept;
  void send(const Control& control);

  Agent& agent_;
  std::atomic<std::uint64_t> drawn_ = 0;
  mutable std::mutex mutex_;  // guards the members below
  Objects objects_;
  Users users_;
  std::unordered_map<std::uint64_t, Given> given_;  // by fork
  bool cleared_ = false;

  std::unique_ptr<DelayedMessages> delayed_;
};

}  // namespace lockstep::rpc
