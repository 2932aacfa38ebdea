#include <lockstep/checkpoint/file/manifest.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>

#include <lockstep/base/error.hpp>
#include <lockstep/base/hash.hpp>

namespace lockstep {
namespace {

constexpr std::string_view manifest_title = "lockstep checkpoint manifest";
constexpr std::string_view header_title = "LOCKSTEP CHECKPOINT\n";
constexpr std::size_t hash_digits = 16;
constexpr std::string_view text_kind = "text";

/// Parses words of a text made by a to_text(). Any deviation is an Error.
class Words {
 public:
  explicit Words(std::string_view text) : rest_(text) {}

  [[nodiscard]] bool at_end() const { return rest_.empty(); }
  std::string_view line() { return until('\n'); }
  std::string_view word() { return until(' '); }
  void expect(std::string_view literal) {
    if (!rest_.starts_with(literal)) fail();
    rest_.remove_prefix(literal.size());
  }
  [[nodiscard]] bool skip(std::string_view literal) {
    const bool there = rest_.starts_with(literal);
    if (there) rest_.remove_prefix(literal.size());
    return there;
  }
  static std::int64_t number(std::string_view digits) {
    std::int64_t value = -1;
    const auto [end, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), value, 10);
    if (error != std::errc() || end != digits.data() + digits.size() || value < 0) fail();
    return value;
  }
  static std::uint64_t hash(std::string_view digits) {
    std::uint64_t value = 0;
    const auto [end, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
    if (error != std::errc() || end != digits.data() + hash_digits || digits.size() != hash_digits)
      fail();
    return value;
  }
  [[noreturn]] static void fail() { throw Error("the text is not what Lockstep writes"); }

 private:
  std::string_view until(char separator) {
    const auto at = rest_.find(separator);
    if (at == std::string_view::npos) fail();
    const auto word = rest_.substr(0, at);
    rest_.remove_prefix(at + 1);
    return word;
  }
  std::string_view rest_;
};

Shape parse_shape(std::string_view text) {
  std::vector<std::int64_t> extents;
  while (!text.empty()) {
    const auto comma = std::min(text.find(','), text.size());
    extents.push_back(Words::number(text.substr(0, comma)));
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return Shape(extents);
}

/// The next line, if it describes a slab.
std::optional<Slab> parse_slab(Words& words) {
  // No file is larger, so no sum below overflows.
  constexpr std::int64_t longest = std::int64_t{1} << 60, largest_chunk = std::int64_t{1} << 30;
  const bool several = words.skip("runs ");
  const bool chunk = !several && words.skip("chunk ");
  if (!several && !chunk && !words.skip("slab ")) return {};
  Slab slab;
  slab.begin = Words::number(words.word());
  slab.bytes = Words::number(words.word());
  if (slab.begin > longest || slab.bytes > longest || slab.bytes == 0) Words::fail();
  if (several) {
    slab.run = Words::number(words.word());
    slab.stride = Words::number(words.word());
    if (slab.run == 0 || slab.run > slab.stride || slab.bytes % slab.run != 0 ||
        slab.bytes / slab.run > longest / slab.stride)
      Words::fail();
  }
  if (chunk) {
    slab.chunk.full = Words::number(words.word());
    slab.chunk.at = Words::number(words.word());
    slab.chunk.bytes = Words::number(words.word());
    slab.chunk.hash = Words::hash(words.word());
    if (slab.chunk.full < slab.bytes || slab.chunk.full > largest_chunk ||
        slab.chunk.at > longest || slab.chunk.bytes > longest || slab.chunk.bytes == 0)
      Words::fail();
  }
  slab.hash = Words::hash(words.line());
  return slab;
}

DType parse_dtype(std::string_view name) {
  for (const auto dtype : {DType::f32, DType::f64, DType::bf16, DType::f16, DType::i32, DType::i64,
                           DType::u8, DType::boolean}) {
    if (name == name_of(dtype)) return dtype;
  }
  Words::fail();
}

}  // namespace

std::string Manifest::to_text() const {
  fmt::memory_buffer out;
  const auto to = std::back_inserter(out);
  fmt::format_to(to, "{}\nstructure {}\n", manifest_title, to_hex(structure_hash));
  for (const auto& d : datasets) {
    fmt::format_to(to, "dataset {} {} [{}] {}\n", d.offset, d.text ? text_kind : name_of(d.dtype),
                   fmt::join(d.shape.begin(), d.shape.end(), ","), d.path);
    for (const auto& slab : d.slabs) {
      if (slab.chunk.full > 0) {
        fmt::format_to(to, "chunk {} {} {} {} {} {} {}\n", slab.begin, slab.bytes, slab.chunk.full,
                       slab.chunk.at, slab.chunk.bytes, to_hex(slab.chunk.hash), to_hex(slab.hash));
      } else if (slab.run == 0) {
        fmt::format_to(to, "slab {} {} {}\n", slab.begin, slab.bytes, to_hex(slab.hash));
      } else {
        fmt::format_to(to, "runs {} {} {} {} {}\n", slab.begin, slab.bytes, slab.run, slab.stride,
                       to_hex(slab.hash));
      }
    }
  }
  return fmt::to_string(out);
}

Manifest Manifest::parse(std::string_view text) {
  Manifest manifest;
  Words words(text);
  words.expect(manifest_title);
  words.expect("\nstructure ");
  manifest.structure_hash = Words::hash(words.line());
  while (!words.at_end()) {
    words.expect("dataset ");
    DatasetEntry d;
    d.offset = Words::number(words.word());
    const auto type = words.word();
    d.text = type == text_kind;
    if (!d.text) d.dtype = parse_dtype(type);
    const auto shape = words.word();
    if (!shape.starts_with('[') || !shape.ends_with(']')) Words::fail();
    d.shape = parse_shape(shape.substr(1, shape.size() - 2));
    d.path = words.line();
    std::int64_t covered = 0;
    while (const auto slab = parse_slab(words)) {
      if (slab->bytes > d.bytes() - covered || slab->end() > d.bytes()) Words::fail();
      covered += slab->bytes;
      d.slabs.push_back(*slab);
      if ((slab->chunk.full > 0) != d.is_compressed()) Words::fail();
    }
    if (covered != d.bytes()) Words::fail();
    manifest.datasets.push_back(std::move(d));
  }
  return manifest;
}

std::int64_t DatasetEntry::stored_bytes() const noexcept {
  if (!is_compressed()) return bytes();
  std::int64_t stored = 0;
  for (const Slab& slab : slabs) stored += slab.chunk.bytes;
  return stored;
}

int Manifest::format() const noexcept {
  constexpr int before_compression = 3;
  return std::ranges::any_of(datasets, &DatasetEntry::is_compressed) ? Header::newest_format
                                                                     : before_compression;
}

const DatasetEntry* Manifest::find(std::string_view path) const noexcept {
  const auto at = std::ranges::find(datasets, path, &DatasetEntry::path);
  return at == datasets.end() ? nullptr : &*at;
}

Header::Block Header::to_block() const {
  auto text = fmt::format(
      "{}format {}\nfile {}\nmanifest {} {} {}\n"
      "This is an HDF5 file: open it with any HDF5 tool, which skips these {} bytes.\n",
      header_title, format, file_bytes, manifest.offset, manifest.bytes, to_hex(manifest_hash),
      bytes);
  text.resize(static_cast<std::size_t>(bytes) - hash_digits - 1, '\n');
  text += to_hex(hash64(text.data(), text.size())) + "\n";
  Block block;
  std::ranges::copy(text, block.begin());
  return block;
}

Header Header::parse(const Block& block) {
  const std::string_view text(block.data(), block.size());
  if (!text.starts_with(header_title)) {
    if (text[7] == '\0' && text[8] == '{') {
      throw Error(
          "is a safetensors file, which has weights and no state of a run: train.init_from and "
          "read_weights() read it");
    }
    throw Error(
        "is not a Lockstep checkpoint, or its first bytes are damaged: it does not begin with "
        "'LOCKSTEP CHECKPOINT'");
  }
  // A newer format guarantees only this much: title, format number, checksum of the block.
  const auto checked = text.substr(0, text.size() - hash_digits - 1);
  if (text.substr(checked.size()) != to_hex(hash64(checked.data(), checked.size())) + "\n")
    throw Error(fmt::format("is damaged: its header, bytes 0 to {}, does not match its checksum",
                            bytes - 1));
  Header header;
  Words words(text.substr(header_title.size()));
  words.expect("format ");
  header.format = static_cast<int>(
      std::min<std::int64_t>(Words::number(words.line()), std::numeric_limits<int>::max()));
  if (header.format < 1 || header.format > newest_format)
    throw Error(fmt::format(
        "was written in format {} by another version of Lockstep; this one reads formats 1 to {}",
        header.format, newest_format));
  words.expect("file ");
  header.file_bytes = Words::number(words.line());
  words.expect("manifest ");
  header.manifest.offset = Words::number(words.word());
  header.manifest.bytes = Words::number(words.word());
  header.manifest_hash = Words::hash(words.line());
  return header;
}

std::vector<Extent> structure_extents(const Header& header, const Manifest& manifest) {
  std::vector<Extent> known{{0, Header::bytes}, header.manifest};
  for (const auto& d : manifest.datasets) {
    if (d.is_compressed()) {
      for (const Slab& slab : d.slabs) known.push_back({slab.chunk.at, slab.chunk.bytes});
    } else if (d.bytes() > 0) {
      known.push_back({d.offset, d.bytes()});
    }
  }
  std::ranges::sort(known, {}, &Extent::offset);
  std::vector<Extent> gaps;
  std::int64_t end = 0;
  for (const auto& extent : known) {
    if (extent.offset < end || extent.bytes > header.file_bytes - extent.offset)
      throw Error("parts of the file overlap or lie beyond its end");
    if (extent.offset > end) gaps.push_back({end, extent.offset - end});
    end = extent.offset + extent.bytes;
  }
  if (end < header.file_bytes) gaps.push_back({end, header.file_bytes - end});
  return gaps;
}

}  // namespace lockstep
