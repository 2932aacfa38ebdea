#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <lockstep/rpc/error.hpp>
#include <lockstep/tensor/tensor.hpp>

// A message: Head, payload (the arguments or the result, archive.hpp), table of tensors, table of
// references, context, and the elements of small tensors, each from a multiple of 64 bytes. Tensors
// that are longer follow in messages of their own. All lengths follow from the head and the tables,
// and are checked against the message's size before anything is allocated or read. Little-endian.

namespace lockstep::rpc {

class ReferenceHandle;

enum class Kind : std::uint8_t {
  call = 1,
  answer,
  create,   ///< a call whose result stays there as the object of a reference
  control,  ///< manages references; has no answer
  credit,   ///< how many messages of the receiver have come (outbox.hpp)
  ask,      ///< whether the receiver works: its answer is a tell (work_watch.hpp)
  tell,
  wake,  ///< to oneself: look up
};

/// The outcome of a call.
enum class Status : std::uint8_t { fine, threw, unknown_function, other_signature, malformed };

/// The beginning of every message.
struct Head {
  std::uint32_t magic;
  std::uint8_t version;
  Kind kind;
  Status status;        ///< of an answer
  std::uint8_t action;  ///< of a control message
  std::uint64_t id;     ///< of the call, chosen by the caller
  std::uint64_t function, signature;
  std::uint64_t reference, fork;  ///< of create and control
  std::uint64_t payload_bytes;
  std::uint32_t tensors, references, context_bytes;
  std::uint32_t timeout_ms;  ///< of a call
  std::uint32_t depth;       ///< of a call: 1 if no executing call makes it
  std::uint32_t received;    ///< of the receiver's messages, over the other group (outbox.hpp)
};
static_assert(sizeof(Head) == 80);

/// A reference on its way to another worker (rref.hpp).
struct ReferenceEntry {
  std::uint64_t reference, fork;
  std::uint64_t type;  ///< of the object: a hash of its name
  std::int32_t owner, parent;
};
static_assert(sizeof(ReferenceEntry) == 32);

/// Sizes above which a message is sent in another way, or refused.
struct Limits {
  std::int64_t inline_bytes, message_bytes, tensor_bytes;
};

inline constexpr std::uint32_t nothing = 0xffffffff;  ///< the index of an undefined tensor

/// A message that is being written. Copies of tensors are handles: their elements are read when the
/// message is sealed (small ones), or while it travels.
class OutgoingMessage {
 public:
  OutgoingMessage(Kind kind, const Limits& limits);
  ~OutgoingMessage();
  OutgoingMessage(const OutgoingMessage&) = delete;
  OutgoingMessage& operator=(const OutgoingMessage&) = delete;

  [[nodiscard]] Head& head() noexcept { return head_; }
  [[nodiscard]] int to() const noexcept { return to_; }
  void set_to(int to) noexcept { to_ = to; }

  /// Appends to the payload.
  void write(const void* data, std::size_t bytes);
  /// Its index in the table. Tensors of devices are copied to the host.
  [[nodiscard]] std::uint32_t add(const Tensor& tensor);
  [[nodiscard]] std::uint32_t add(const ReferenceEntry& reference);
  /// Bytes that travel beside the arguments: CallHook.
  [[nodiscard]] std::vector<std::byte>& context() noexcept { return parts_->context; }
  [[nodiscard]] std::span<const Tensor> tensors() const noexcept { return parts_->tensors; }
  [[nodiscard]] std::span<const ReferenceEntry> references() const noexcept {
    return parts_->references;
  }

  /// The whole message, u8. Long tensors get tags from `next_tag` on, modulo `tags`. Throws
  /// InputError if it is larger than the limits.
  [[nodiscard]] Tensor seal(std::uint32_t next_tag);
  /// The tensors that travel on their own, in the order of their tags.
  [[nodiscard]] std::span<const Tensor> long_tensors() const noexcept { return parts_->long_ones; }

  /// As many as a group's message_tags, except tag 0, which messages use.
  static constexpr std::uint32_t tags = (1U << 17) - 1;
  [[nodiscard]] static int tag_of(std::uint32_t number) noexcept {
    return static_cast<int>(1 + number % tags);
  }

 private:
  struct Parts {
    std::vector<Tensor> tensors, long_ones;
    std::vector<ReferenceEntry> references;
    std::vector<std::byte> context;
  };
  struct SpareParts;
  void reserve(std::size_t bytes);
  void append(const void* data, std::size_t bytes);
  void align(std::size_t multiple);

  Head head_{};
  Limits limits_;
  int to_ = -1;
  Tensor buffer_;
  std::byte* bytes_ = nullptr;
  std::size_t size_ = 0, capacity_ = 0;
  std::unique_ptr<Parts> parts_;
};

/// The head of a message whose other parts may be damaged; empty if it is not a Lockstep message.
[[nodiscard]] std::optional<Head> head_of(const Tensor& bytes);

/// A message that has come. parse() has checked its head, its tables and its length; its
/// payload is checked while it is read.
class IncomingMessage {
 public:
  IncomingMessage() = default;
  /// Throws MalformedMessage.
  IncomingMessage(Tensor bytes, int from, const Limits& limits);

  [[nodiscard]] const Head& head() const noexcept { return head_; }
  [[nodiscard]] int from() const noexcept { return from_; }
  [[nodiscard]] std::span<const std::byte> payload() const noexcept { return payload_; }
  [[nodiscard]] std::span<const std::byte> context() const noexcept { return context_; }
  [[nodiscard]] std::span<const ReferenceEntry> references() const noexcept { return references_; }
  [[nodiscard]] std::span<const Tensor> tensors() const noexcept { return tensors_; }

  /// The tensors that travel on their own, and their tags: to be received before they are read.
  struct Awaited {
    std::uint32_t tensor;
    int tag;
  };
  [[nodiscard]] std::span<const Awaited> awaited() const noexcept { return awaited_; }
  /// Gives memory to the awaited ones. Not before it is known that the call will be looked at.
  void allocate_awaited();
  /// Puts in place one that has come in another way.
  void set_tensor(std::uint32_t index, Tensor tensor) { tensors_[index] = std::move(tensor); }
  /// Throws MalformedMessage if there is no such tensor.
  [[nodiscard]] Tensor tensor(std::uint32_t index) const;

  /// This rank's shares in the references of the table (references.hpp), once it has taken them
  /// over; the message's destructor releases those that were not read.
  [[nodiscard]] std::vector<std::shared_ptr<ReferenceHandle>>& handles() noexcept {
    return handles_;
  }

 private:
  Head head_{};
  int from_ = -1;
  Tensor bytes_;
  std::span<const std::byte> payload_, context_;
  std::vector<Tensor> tensors_;
  std::vector<ReferenceEntry> references_;
  struct Shaped {
    Shape shape;
    DType dtype;
    Layout layout;
  };
  std::vector<Shaped> shapes_;  // of the awaited ones
  std::vector<Awaited> awaited_;
  std::vector<std::shared_ptr<ReferenceHandle>> handles_;
};

}  // namespace lockstep::rpc
