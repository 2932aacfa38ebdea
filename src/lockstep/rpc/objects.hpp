#pragma once
#include <concepts>
#include <exception>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <lockstep/comm/message_port.hpp>
#include <lockstep/comm/objects.hpp>
#include <lockstep/rpc/archive.hpp>
#include <lockstep/rpc/function.hpp>

// Objects of any serialisable type in collectives and messages: those that cereal knows (numbers,
// strings, containers, smart pointers), tensors, and classes with a serialize() member. For
// settings, names and totals, not for performance-critical data. A received object must have the
// requested type: else MalformedMessage. An object that cannot be serialised, on one rank, is an
// InputError that names this rank: of a collective on all ranks, of a message on both. Strings go
// as comm/objects.hpp sends them.

namespace lockstep {

/// The types that the templates below take.
template <class T>
concept SerialisableObject =
    std::default_initializable<T> && !std::convertible_to<const T&, std::string>;

namespace rpc {

inline constexpr Limits no_limits{.inline_bytes = std::numeric_limits<std::int64_t>::max(),
                                  .message_bytes = std::numeric_limits<std::int64_t>::max(),
                                  .tensor_bytes = std::numeric_limits<std::int64_t>::max()};

/// The object as u8 [bytes], with its tensors. Throws InputError for an object that holds an RRef.
template <class T>
[[nodiscard]] Tensor serialised(const T& object) {
  OutgoingMessage message(Kind::wake, no_limits);
  message.head().signature = hash_of_name(typeid(T).name());
  OutputArchive archive(message);
  archive(object);
  if (!message.references().empty()) {
    throw InputError("an object with an RRef can only be an argument or a result of a remote call");
  }
  return message.seal(0);
}

/// The placeholder of an object that could not be serialised: deserialised() throws its error.
[[nodiscard]] inline Tensor serialised_failure(const std::string& reason) {
  OutgoingMessage message(Kind::wake, no_limits);
  message.head().status = Status::threw;
  OutputArchive archive(message);
  archive(reason);
  return message.seal(0);
}

[[noreturn]] inline void refuse_object(int rank, const std::string& reason) {
  throw InputError(cannot_send_object("rank " + std::to_string(rank), reason));
}

/// The object of these bytes, which came from rank `from`. Throws MalformedMessage, or InputError
/// if that rank could not serialise it.
template <class T>
[[nodiscard]] T deserialised(const Tensor& bytes, int from) {
  IncomingMessage message(bytes, from, no_limits);
  if (message.head().status != Status::fine) {
    std::string reason;
    InputArchive archive(message);
    archive(reason);
    refuse_object(from, reason);
  }
  if (message.head().signature != hash_of_name(typeid(T).name())) {
    throw MalformedMessage("rank " + std::to_string(from) +
                           " sent an object of a type other than the one requested here");
  }
  T object{};
  try {
    InputArchive archive(message);
    archive(object);
    archive.expect_end();
  } catch (const cereal::Exception& error) {
    throw MalformedMessage("an object from rank " + std::to_string(from) +
                           " was refused: " + error.what());
  }
  return object;
}

/// For a collective: which tells all ranks if the object cannot be serialised.
template <class T>
[[nodiscard]] ObjectBytes object_bytes(const T& object) {
  try {
    const Tensor bytes = serialised(object);
    return std::string(static_cast<const char*>(bytes.data()), bytes.bytes());
  } catch (...) {
    return ObjectBytes::none(text_of(std::current_exception()));
  }
}

template <class T>
[[nodiscard]] T deserialised_text(const std::string& text, int from) {
  const auto* begin = reinterpret_cast<const std::uint8_t*>(text.data());
  return deserialised<T>(Tensor::from(std::vector<std::uint8_t>(begin, begin + text.size())), from);
}

}  // namespace rpc

/// Rank `root`'s object on every rank; the others' are not looked at. Collective.
template <SerialisableObject T>
[[nodiscard]] T broadcast_object(ProcessGroup& group, const T& object, int root) {
  const ObjectBytes own = group.rank() == root ? rpc::object_bytes(object) : ObjectBytes();
  return rpc::deserialised_text<T>(broadcast_object(group, own, root), root);
}

/// Every rank's object, in rank order, on every rank. Collective.
template <SerialisableObject T>
[[nodiscard]] std::vector<T> all_gather_object(ProcessGroup& group, const T& object) {
  std::vector<T> objects;
  int from = 0;
  for (const std::string& text : all_gather_object(group, rpc::object_bytes(object)))
    objects.push_back(rpc::deserialised_text<T>(text, from++));
  return objects;
}

/// The same on rank `root` only; empty elsewhere. Collective.
template <SerialisableObject T>
[[nodiscard]] std::vector<T> gather_object(ProcessGroup& group, const T& object, int root) {
  std::vector<T> objects;
  int from = 0;
  for (const std::string& text : gather_object(group, rpc::object_bytes(object), root))
    objects.push_back(rpc::deserialised_text<T>(text, from++));
  return objects;
}

/// Element r of rank `root`'s list on rank r; the others' lists are not looked at. Collective.
/// Throws InputError on every rank if root's list has not one element a rank.
template <SerialisableObject T>
[[nodiscard]] T scatter_object(ProcessGroup& group, const std::vector<T>& objects, int root) {
  std::vector<ObjectBytes> all;
  if (group.rank() == root) {
    for (const T& object : objects) all.push_back(rpc::object_bytes(object));
  }
  return rpc::deserialised_text<T>(scatter_object(group, all, root), root);
}

/// One object to rank `peer`, which calls recv_object with the same type.
template <SerialisableObject T>
void send_object(ProcessGroup& group, const T& object, int peer, int tag = 0) {
  Tensor bytes;
  std::optional<std::string> reason;
  try {
    bytes = rpc::serialised(object);
  } catch (...) {
    reason = rpc::text_of(std::current_exception());
    bytes = rpc::serialised_failure(*reason);
  }
  group.send(bytes, peer, tag);
  if (reason) rpc::refuse_object(group.rank(), *reason);
}

/// One object from rank `peer`, or from any_source. Returns the sender's rank. Throws InputError,
/// with its reason, if the sender could not serialise the object.
template <SerialisableObject T>
int recv_object(ProcessGroup& group, T& object, int peer, int tag = 0) {
  Work work = MessagePort(group).irecv(peer, tag);
  work.wait();
  object = rpc::deserialised<T>(work.message(), work.source());
  return work.source();
}

}  // namespace lockstep
