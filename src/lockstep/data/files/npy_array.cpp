#include <lockstep/data/files/npy_array.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep {
namespace {

constexpr std::string_view magic = "\x93NUMPY";
constexpr std::int64_t most_header_bytes = 1 << 16;

/// The type after the byte order character.
const std::array<std::pair<std::string_view, StoredType>, 12> types{{{"f2", StoredType::f16},
                                                                     {"f4", StoredType::f32},
                                                                     {"f8", StoredType::f64},
                                                                     {"b1", StoredType::boolean},
                                                                     {"u1", StoredType::u8},
                                                                     {"i1", StoredType::i8},
                                                                     {"u2", StoredType::u16},
                                                                     {"i2", StoredType::i16},
                                                                     {"u4", StoredType::u32},
                                                                     {"i4", StoredType::i32},
                                                                     {"u8", StoredType::u64},
                                                                     {"i8", StoredType::i64}}};

[[noreturn]] void refuse(const DataFile& file, const std::string& why) {
  throw InputError(fmt::format("data file {} {}", file.path().string(), why));
}

/// The text after `'key':` in a header, a Python dictionary: "{'descr': '<f4', ...}".
std::string_view value_of(std::string_view header, std::string_view key) {
  const auto found = header.find(fmt::format("'{}':", key));
  if (found == std::string_view::npos) return {};
  std::string_view value = header.substr(found + key.size() + 3);
  value.remove_prefix(std::min(value.find_first_not_of(' '), value.size()));
  return value;
}

/// Parses "(3, 4)", "(3,)" or "()"; nothing for other text, or beyond 2^62 elements.
std::optional<std::vector<std::int64_t>> extents_of(std::string_view text) {
  const auto end = text.find(')');
  if (!text.starts_with('(') || end == std::string_view::npos) return std::nullopt;
  text = text.substr(1, end - 1);
  std::vector<std::int64_t> extents;
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max() / 16;
  std::int64_t elements = 1;
  while (!text.empty()) {
    std::int64_t extent = -1;
    const auto [next, error] = std::from_chars(text.data(), text.data() + text.size(), extent);
    if (error != std::errc() || extent < 0) return std::nullopt;
    if (extent > 0 && elements > most / extent) return std::nullopt;
    elements *= std::max<std::int64_t>(extent, 1);
    extents.push_back(extent);
    text.remove_prefix(static_cast<std::size_t>(next - text.data()));
    text.remove_prefix(std::min(text.find_first_not_of(", "), text.size()));
  }
  return extents;
}

struct Header {
  std::string text;
  std::int64_t end = 0;  ///< offset of the numbers
};

Header read_header(const DataFile& file) {
  constexpr std::int64_t fixed =
      12;  // sizes of version 2; version 1 has two bytes less, with a length of 16 bits
  if (file.bytes() < fixed) refuse(file, "is not a .npy file: it is too short.");
  std::array<unsigned char, fixed> start{};
  file.open()->read_at(0, start.data(), fixed);
  const std::string_view first(reinterpret_cast<const char*>(start.data()), magic.size());
  if (first != magic) {
    refuse(file,
           "is not a .npy file: it does not begin with \\x93NUMPY. Write it with numpy.save, or "
           "set data.kind to the file's kind.");
  }
  const int version = start[6];
  if (version < 1 || version > 3) refuse(file, fmt::format("has version {} of .npy", version));
  std::int64_t length = start[8] + 256 * start[9], begin = 10;
  if (version > 1) {
    length += (std::int64_t{start[10]} << 16) + (std::int64_t{start[11]} << 24);
    begin = fixed;
  }
  if (length > most_header_bytes || begin + length > file.bytes())
    refuse(file, "is damaged or truncated: its header does not end. Get a fresh copy.");
  Header header{std::string(static_cast<std::size_t>(length), '\0'), begin + length};
  file.open()->read_at(begin, header.text.data(), length);
  return header;
}

}  // namespace

NpyArray::NpyArray(const std::filesystem::path& path)
    : file_(path, "Write it with numpy.save, or correct data.path and the names.") {
  const auto [header, begin] = read_header(file_);
  const std::string_view descr = value_of(header, "descr"), type = descr.substr(0, 5);
  // Parses "'<f4'", "'>f4'", "'|u1'": a quote, the byte order, the type and a quote.
  const auto* const known = std::ranges::find_if(types, [&](const auto& candidate) {
    return type.size() == 5 && type[0] == '\'' && type[4] == '\'' &&
           std::string_view("<>|=").find(type[1]) != std::string_view::npos &&
           type.substr(2, 2) == candidate.first;
  });
  if (known == types.end()) {
    refuse(file_, fmt::format("holds {}: only float16, float32, float64, bool and integers are "
                              "read. Convert it with astype.",
                              descr.empty() ? "nothing known" : descr.substr(0, descr.find(','))));
  }
  type_ = known->second;
  order_ = type[1] == '>' ? ByteOrder::big : ByteOrder::little;
  fortran_order_ = value_of(header, "fortran_order").starts_with("True");
  const auto extents = extents_of(value_of(header, "shape"));
  if (!extents) refuse(file_, "is damaged: its header gives no shape. Get a fresh copy.");
  if (extents->empty() || std::ssize(*extents) > Shape::max_dims) {
    refuse(file_, fmt::format("has {} dimensions; it must have 1 to {}: samples [N, ...].",
                              extents->size(), Shape::max_dims));
  }
  shape_ = Shape(std::span<const std::int64_t>(*extents));
  offset_ = begin;
  const std::int64_t end = offset_ + shape_.numel() * size_of(type_);
  if (end > file_.bytes()) {
    refuse(file_, fmt::format("is truncated: {} numbers need {} bytes, but the file has {}. Get a "
                              "fresh copy.",
                              to_string(shape_), end, file_.bytes()));
  }
  if (end < file_.bytes()) {
    refuse(file_, fmt::format("has {} bytes after its array, {}: if more arrays were saved into "
                              "it, save each into a file of its own.",
                              file_.bytes() - end, to_string(shape_)));
  }
  description_ = fmt::format("{}, {} {}", path.string(), known->first, to_string(shape_));
}

/// For an array [N, ...] in Fortran order, where element (n, i, j ...) is number n + N (i + I (j
/// ...)).
template <class T>
void NpyArray::read_columns(std::int64_t begin, std::span<T> out) const {
  const std::int64_t width = row_elements(), rows = std::ssize(out) / width;
  std::array<T, 1024> column;
  for (std::int64_t element = 0; element < width; ++element) {
    // `element` counts through a row in C order: the last index changes fastest.
    std::int64_t rest = element, place = 0, before = width;
    for (int d = shape_.dims() - 1; d > 0; --d) {
      before /= shape_[d];
      place += rest % shape_[d] * before;
      rest /= shape_[d];
    }
    for (std::int64_t row = 0; row < rows; row += std::ssize(column)) {
      const auto piece = std::span(column).first(
          static_cast<std::size_t>(std::min(std::ssize(column), rows - row)));
      const std::int64_t first = place * shape_[0] + begin + row;
      read_numbers(*file_.open(), offset_ + first * size_of(type_), type_, piece, order_);
      for (std::size_t i = 0; i < piece.size(); ++i) {
        out[static_cast<std::size_t>((row + static_cast<std::int64_t>(i)) * width + element)] =
            piece[i];
      }
    }
  }
}

template <class T>
void NpyArray::read_rows(std::int64_t begin, std::int64_t end, std::span<T> out) const {
  expect_rows(begin, end, std::ssize(out));
  try {
    if (fortran_order_ && shape_.dims() > 1 && !out.empty()) return read_columns(begin, out);
    read_numbers(*file_.open(), offset_ + begin * row_elements() * size_of(type_), type_, out,
                 order_);
  } catch (const FileError& error) {
    throw InputError(fmt::format("rows {} to {} of {} cannot be read: {}", begin, end, description_,
                                 error.what()));
  }
}

void NpyArray::read(std::int64_t begin, std::int64_t end, std::span<float> out) const {
  read_rows(begin, end, out);
}
void NpyArray::read(std::int64_t begin, std::int64_t end, std::span<std::int64_t> out) const {
  read_rows(begin, end, out);
}
void NpyArray::read(std::int64_t begin, std::int64_t end, std::span<std::uint8_t> out) const {
  read_rows(begin, end, out);
}

}  // namespace lockstep
