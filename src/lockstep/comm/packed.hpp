#pragma once
#include <concepts>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <vector>

#include <lockstep/base/error.hpp>

// Values as bytes that travel between ranks: of one program, on machines of one byte order. Types:
// numbers, enums, strings, paths, optionals and vectors of such, and structs that list their
// members:
//   static auto fields(auto& self) { return std::tie(self.host, self.cores); }

namespace lockstep {
namespace detail {

template <class T>
concept Number = std::is_arithmetic_v<T> || std::is_enum_v<T>;

template <class T>
concept Struct = requires(T& value) {
  T::fields(value);
};

template <class T>
inline constexpr bool is_vector = false;
template <class T>
inline constexpr bool is_vector<std::vector<T>> = true;
template <class T>
inline constexpr bool is_optional = false;
template <class T>
inline constexpr bool is_optional<std::optional<T>> = true;

template <class T>
void pack(std::string& bytes, const T& value) {
  if constexpr (Number<T>) {
    bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
  } else if constexpr (std::is_same_v<T, std::string>) {
    pack(bytes, std::uint64_t{value.size()});
    bytes += value;
  } else if constexpr (std::is_same_v<T, std::filesystem::path>) {
    pack(bytes, value.string());
  } else if constexpr (is_vector<T>) {
    pack(bytes, std::uint64_t{value.size()});
    for (const typename T::value_type& element : value) pack(bytes, element);
  } else if constexpr (is_optional<T>) {
    pack(bytes, value.has_value());
    if (value) pack(bytes, *value);
  } else {
    static_assert(Struct<T>, "list the members of this struct in fields()");
    std::apply([&](const auto&... members) { (pack(bytes, members), ...); }, T::fields(value));
  }
}

/// Takes as many bytes as it needs off the front.
template <class T>
void unpack(std::string_view& bytes, T& value) {
  const auto take = [&](std::uint64_t count) {
    if (count > bytes.size()) throw Error("the bytes of a value from another rank end too early");
    const std::string_view taken = bytes.substr(0, count);
    bytes.remove_prefix(count);
    return taken;
  };
  if constexpr (Number<T>) {
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
  } else if constexpr (std::is_same_v<T, std::string>) {
    std::uint64_t length = 0;
    unpack(bytes, length);
    value = take(length);
  } else if constexpr (std::is_same_v<T, std::filesystem::path>) {
    std::string text;
    unpack(bytes, text);
    value = text;
  } else if constexpr (is_vector<T>) {
    std::uint64_t length = 0;
    unpack(bytes, length);
    value.clear();
    for (std::uint64_t i = 0; i < length; ++i) {
      typename T::value_type element{};
      unpack(bytes, element);
      value.push_back(std::move(element));
    }
  } else if constexpr (is_optional<T>) {
    bool there = false;
    unpack(bytes, there);
    value.reset();
    if (there) unpack(bytes, value.emplace());
  } else {
    static_assert(Struct<T>, "list the members of this struct in fields()");
    std::apply([&](auto&... members) { (unpack(bytes, members), ...); }, T::fields(value));
  }
}

}  // namespace detail

template <class T>
[[nodiscard]] std::string packed(const T& value) {
  std::string bytes;
  detail::pack(bytes, value);
  return bytes;
}

/// Throws Error if `bytes` are not those of one T.
template <std::default_initializable T>
[[nodiscard]] T unpacked(std::string_view bytes) {
  T value{};
  detail::unpack(bytes, value);
  if (!bytes.empty()) throw Error("a value from another rank has more bytes than its type");
  return value;
}

}  // namespace lockstep
