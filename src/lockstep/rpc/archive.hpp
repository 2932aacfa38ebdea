#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include <cereal/cereal.hpp>
#include <cereal/types/array.hpp>
#include <cereal/types/map.hpp>
#include <cereal/types/memory.hpp>
#include <cereal/types/optional.hpp>
#include <cereal/types/set.hpp>
#include <cereal/types/string.hpp>
#include <cereal/types/tuple.hpp>
#include <cereal/types/unordered_map.hpp>
#include <cereal/types/utility.hpp>
#include <cereal/types/variant.hpp>
#include <cereal/types/vector.hpp>
#include <lockstep/rpc/message.hpp>

// Serialises arguments and results with cereal's archives, so types that cereal knows, and types
// with a serialize() member, can be passed. The one public header that includes another library:
// whether a type can be sent is decided where the type is defined.

namespace lockstep::rpc {

/// Writes into a message. Tensors and references go to the message's tables.
class OutputArchive : public cereal::OutputArchive<OutputArchive, cereal::AllowEmptyClassElision> {
 public:
  explicit OutputArchive(OutgoingMessage& message)
      : cereal::OutputArchive<OutputArchive, cereal::AllowEmptyClassElision>(this),
        message_(message) {}

  [[nodiscard]] OutgoingMessage& message() noexcept { return message_; }
  void write(const void* data, std::size_t bytes) { message_.write(data, bytes); }

 private:
  OutgoingMessage& message_;
};

/// Reads from an untrusted message: throws MalformedMessage, or cereal's Exception, rather than
/// read past the end or allocate much more than the message's size.
class InputArchive : public cereal::InputArchive<InputArchive, cereal::AllowEmptyClassElision> {
 public:
  explicit InputArchive(IncomingMessage& message)
      : cereal::InputArchive<InputArchive, cereal::AllowEmptyClassElision>(this),
        message_(message),
        rest_(message.payload()) {}

  [[nodiscard]] IncomingMessage& message() noexcept { return message_; }

  void read(void* data, std::size_t bytes) {
    if (bytes > rest_.size()) throw MalformedMessage("a message was refused: it ends too early");
    if (bytes > 0) std::memcpy(data, rest_.data(), bytes);
    rest_ = rest_.subspan(bytes);
  }
  /// The number of elements that follow, each at least one byte.
  void expect_count(std::uint64_t count) const {
    if (count > rest_.size()) {
      throw MalformedMessage(
          "a message was refused: it is too short for the number of elements that it declares");
    }
  }
  /// Everything has been read.
  void expect_end() const {
    if (!rest_.empty()) throw MalformedMessage("a message was refused: it has bytes left over");
  }
  // Of types within types: lists that are linked by pointers must not exhaust the stack.
  void enter() {
    constexpr int deepest = 500;
    if (++depth_ > deepest)
      throw MalformedMessage("a message was refused: it is nested too deeply");
  }
  void leave() noexcept { --depth_; }

 private:
  IncomingMessage& message_;
  std::span<const std::byte> rest_;
  int depth_ = 0;
};

template <class T>
requires(!std::is_arithmetic_v<T>) void prologue(InputArchive& archive, const T&) {
  archive.enter();
}
template <class T>
requires(!std::is_arithmetic_v<T>) void epilogue(InputArchive& archive, const T&) {
  archive.leave();
}

template <class T>
requires std::is_arithmetic_v<T>
void CEREAL_SAVE_FUNCTION_NAME(OutputArchive& archive, const T& value) {
  archive.write(&value, sizeof(T));
}
template <class T>
requires std::is_arithmetic_v<T>
void CEREAL_LOAD_FUNCTION_NAME(InputArchive& archive, T& value) {
  if constexpr (std::is_same_v<T, bool>) {
    std::uint8_t byte = 0;
    archive.read(&byte, 1);
    if (byte > 1) throw MalformedMessage("a message was refused: a bool is neither true nor false");
    value = byte == 1;
  } else {
    archive.read(&value, sizeof(T));
  }
}

template <class T>
void CEREAL_SAVE_FUNCTION_NAME(OutputArchive& archive, const cereal::NameValuePair<T>& pair) {
  archive(pair.value);
}
template <class T>
void CEREAL_LOAD_FUNCTION_NAME(InputArchive& archive, cereal::NameValuePair<T>& pair) {
  archive(pair.value);
}

template <class T>
void CEREAL_SAVE_FUNCTION_NAME(OutputArchive& archive, const cereal::SizeTag<T>& tag) {
  const auto size = static_cast<std::uint64_t>(tag.size);
  archive.write(&size, sizeof(size));
}
template <class T>
void CEREAL_LOAD_FUNCTION_NAME(InputArchive& archive, cereal::SizeTag<T>& tag) {
  std::uint64_t size = 0;
  archive.read(&size, sizeof(size));
  archive.expect_count(size);
  tag.size = static_cast<std::remove_cvref_t<T>>(size);
}

template <class T>
void CEREAL_SAVE_FUNCTION_NAME(OutputArchive& archive, const cereal::BinaryData<T>& data) {
  archive.write(data.data, static_cast<std::size_t>(data.size));
}
template <class T>
void CEREAL_LOAD_FUNCTION_NAME(InputArchive& archive, cereal::BinaryData<T>& data) {
  using Element = std::remove_cv_t<std::remove_pointer_t<std::remove_reference_t<T>>>;
  const auto bytes = static_cast<std::size_t>(data.size);
  if constexpr (std::is_same_v<Element, bool>) {
    for (std::size_t i = 0; i < bytes; ++i) CEREAL_LOAD_FUNCTION_NAME(archive, data.data[i]);
  } else {
    archive.read(data.data, bytes);
  }
}

inline void CEREAL_SAVE_FUNCTION_NAME(OutputArchive& archive, const Tensor& tensor) {
  const std::uint32_t index = archive.message().add(tensor);
  archive.write(&index, sizeof(index));
}
inline void CEREAL_LOAD_FUNCTION_NAME(InputArchive& archive, Tensor& tensor) {
  std::uint32_t index = 0;
  archive.read(&index, sizeof(index));
  tensor = archive.message().tensor(index);
}

}  // namespace lockstep::rpc

CEREAL_SETUP_ARCHIVE_TRAITS(lockstep::rpc::InputArchive, lockstep::rpc::OutputArchive)
