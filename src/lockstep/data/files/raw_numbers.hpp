#pragma once
#include <cstdint>
#include <span>

#include <lockstep/io/file.hpp>

namespace lockstep {

/// Stored type of a number; `boolean` is a byte that is 0 or 1.
enum class StoredType { f16, f32, f64, boolean, u8, i8, u16, i16, u32, i32, u64, i64 };

enum class ByteOrder { little, big };

[[nodiscard]] std::int64_t size_of(StoredType type) noexcept;
[[nodiscard]] bool is_integer(StoredType type) noexcept;

/// Fills `out` with the numbers of `type` from byte `offset` of the file, converted. A u64 too
/// large for i64 becomes the largest i64. T is float, std::int64_t or std::uint8_t. Allocates
/// nothing. Throws FileError.
template <class T>
void read_numbers(const File& file, std::int64_t offset, StoredType type, std::span<T> out,
                  ByteOrder order = ByteOrder::little);

}  // namespace lockstep
