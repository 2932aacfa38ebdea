#include <lockstep/data/files/raw_numbers.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <limits>
#include <type_traits>

#include <lockstep/tensor/half.hpp>

namespace lockstep {
namespace {

/// Calls f with a value of the C++ type for `type`.
template <class F>
decltype(auto) with_type(StoredType type, const F& f) {
  switch (type) {
    case StoredType::f16:
      return f(Float16{});
    case StoredType::f32:
      return f(float{});
    case StoredType::f64:
      return f(double{});
    case StoredType::boolean:
    case StoredType::u8:
      return f(std::uint8_t{});
    case StoredType::i8:
      return f(std::int8_t{});
    case StoredType::u16:
      return f(std::uint16_t{});
    case StoredType::i16:
      return f(std::int16_t{});
    case StoredType::u32:
      return f(std::uint32_t{});
    case StoredType::i32:
      return f(std::int32_t{});
    case StoredType::u64:
      return f(std::uint64_t{});
    case StoredType::i64:
      break;
  }
  return f(std::int64_t{});
}

template <class T>
T with_other_order(T value) {
  auto bytes = std::bit_cast<std::array<std::byte, sizeof(T)>>(value);
  std::ranges::reverse(bytes);
  return std::bit_cast<T>(bytes);
}

template <class T, class From>
T converted(From value) {
  if constexpr (std::is_same_v<From, std::uint64_t> && std::is_integral_v<T>) {
    constexpr auto most = static_cast<std::uint64_t>(std::numeric_limits<T>::max());
    return static_cast<T>(std::min(value, most));
  } else {
    return static_cast<T>(value);
  }
}

/// Converts through a buffer on the stack if the types differ.
template <class From, class T>
void read_converted(const File& file, std::int64_t offset, std::span<T> out, ByteOrder order) {
  constexpr auto mine =
      std::endian::native == std::endian::little ? ByteOrder::little : ByteOrder::big;
  if (std::is_same_v<From, T> && order == mine)
    return file.read_at(offset, out.data(), static_cast<std::int64_t>(out.size_bytes()));
  std::array<From, 4096> piece;
  while (!out.empty()) {
    const auto count = std::min(piece.size(), out.size());
    const auto size = static_cast<std::int64_t>(count * sizeof(From));
    file.read_at(offset, piece.data(), size);
    const auto last = piece.begin() + static_cast<std::ptrdiff_t>(count);
    if (order != mine) std::transform(piece.begin(), last, piece.begin(), with_other_order<From>);
    std::transform(piece.begin(), last, out.begin(), converted<T, From>);
    offset += size;
    out = out.subspan(count);
  }
}

}  // namespace

std::int64_t size_of(StoredType type) noexcept {
  return with_type(type, [](auto number) { return static_cast<std::int64_t>(sizeof number); });
}

bool is_integer(StoredType type) noexcept {
  return type != StoredType::f16 && type != StoredType::f32 && type != StoredType::f64;
}

template <class T>
void read_numbers(const File& file, std::int64_t offset, StoredType type, std::span<T> out,
                  ByteOrder order) {
  with_type(type, [&](auto number) { read_converted<decltype(number)>(file, offset, out, order); });
}

template void read_numbers(const File&, std::int64_t, StoredType, std::span<float>, ByteOrder);
template void read_numbers(const File&, std::int64_t, StoredType, std::span<std::int64_t>,
                           ByteOrder);
template void read_numbers(const File&, std::int64_t, StoredType, std::span<std::uint8_t>,
                           ByteOrder);

}  // namespace lockstep
