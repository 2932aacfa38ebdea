#include <lockstep/checkpoint/safetensors.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <lockstep/base/error.hpp>
#include <lockstep/io/atomic_file.hpp>

namespace lockstep {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::int64_t length_bytes = 8;
constexpr std::int64_t longest_text = 100'000'000;  // as in the format's own library
constexpr std::string_view metadata_key = "__metadata__";

struct Name {
  DType dtype;
  std::string_view name;
};
constexpr std::array names{Name{DType::f64, "F64"},   Name{DType::i64, "I64"},
                           Name{DType::f32, "F32"},   Name{DType::i32, "I32"},
                           Name{DType::bf16, "BF16"}, Name{DType::f16, "F16"},
                           Name{DType::u8, "U8"},     Name{DType::boolean, "BOOL"}};

DType dtype_named(std::string_view name) {
  const auto* const found = std::ranges::find(names, name, &Name::name);
  if (found == names.end()) throw Error(fmt::format("is of type {}, which Lockstep has not", name));
  return found->dtype;
}

/// A tensor of the file, its bytes counted from the end of the text.
struct Place {
  std::string name;
  DType dtype = DType::u8;
  Shape shape;
  std::int64_t begin = 0, end = 0;
};

std::int64_t whole_number(const Json& json) {
  if (!json.is_number_unsigned()) throw Error("has a size that is no whole number");
  const auto number = json.get<std::uint64_t>();
  if (number > std::uint64_t{1} << 56U) throw Error("has a size that cannot be");
  return static_cast<std::int64_t>(number);
}

Place place_of(const std::string& name, const Json& entry) {
  Place place{.name = name, .dtype = dtype_named(entry.at("dtype").get<std::string>())};
  std::vector<std::int64_t> sizes;
  double elements = 1;
  for (const Json& size : entry.at("shape")) {
    sizes.push_back(whole_number(size));
    elements *= static_cast<double>(sizes.back());
  }
  if (elements > 1e17) throw Error("has more elements than there can be");
  place.shape = Shape(std::span<const std::int64_t>(sizes));
  const Json& offsets = entry.at("data_offsets");
  if (offsets.size() != 2) throw Error("has data_offsets that are not a begin and an end");
  place.begin = whole_number(offsets[0]);
  place.end = whole_number(offsets[1]);
  const auto bytes = place.shape.numel() * static_cast<std::int64_t>(size_of(place.dtype));
  if (place.end - place.begin != bytes) {
    throw Error(fmt::format("has {} bytes, and needs {} for its shape {}", place.end - place.begin,
                            bytes, to_string(place.shape)));
  }
  return place;
}

/// In the order of their bytes, which they cover without a gap.
std::vector<Place> places_of(const Json& text, std::int64_t data_bytes) {
  std::vector<Place> places;
  for (const auto& [name, entry] : text.items()) {
    if (name == metadata_key) continue;
    try {
      places.push_back(place_of(name, entry));
    } catch (const std::exception& error) {
      throw Error(fmt::format("is damaged: tensor {} {}", name, error.what()));
    }
  }
  std::ranges::stable_sort(places, {}, [](const Place& p) { return std::pair(p.begin, p.end); });
  std::int64_t at = 0;
  for (const Place& place : places) {
    if (place.begin != at) {
      throw Error(
          fmt::format("is damaged: tensor {} begins at byte {}, the one before it ends at {}",
                      place.name, place.begin, at));
    }
    at = place.end;
  }
  if (at == data_bytes) return places;
  throw Error(fmt::format("is damaged, or was cut off: its tensors have {} bytes, the file {}", at,
                          data_bytes));
}

Json read_text(const File& file, std::int64_t& text_bytes) {
  const std::int64_t size = file.size();
  std::uint64_t length = 0;
  if (size >= length_bytes) file.read_at(0, &length, length_bytes);
  if (size < length_bytes || length > static_cast<std::uint64_t>(longest_text) ||
      static_cast<std::int64_t>(length) > size - length_bytes) {
    throw Error("is not a safetensors file, or was cut off");
  }
  text_bytes = static_cast<std::int64_t>(length);
  std::string text(static_cast<std::size_t>(length), '\0');
  file.read_at(length_bytes, text.data(), text_bytes);
  try {
    Json json = Json::parse(text);
    if (json.is_object()) return json;
  } catch (const Json::exception&) {  // NOLINT(bugprone-empty-catch): said below
  }
  throw Error("is not a safetensors file: behind its first 8 bytes is no JSON object");
}

}  // namespace

Safetensors read_safetensors(const std::filesystem::path& path) {
  try {
    const File file = File::open_for_reading(path);
    std::int64_t text_bytes = 0;
    const Json text = read_text(file, text_bytes);
    const std::int64_t data = length_bytes + text_bytes;
    Safetensors contents;
    for (const Place& place : places_of(text, file.size() - data)) {
      const Tensor tensor = Tensor::empty(place.shape, place.dtype);
      file.read_at(data + place.begin, tensor.data(), place.end - place.begin);
      contents.tensors.insert(place.name, tensor);
    }
    if (text.contains(metadata_key)) {
      for (const auto& [key, value] : text.at(metadata_key).items()) {
        contents.metadata.emplace_back(key,
                                       value.is_string() ? value.get<std::string>() : value.dump());
      }
    }
    return contents;
  } catch (const FileError& error) {
    throw CheckpointError(error.what());
  } catch (const std::exception& error) {
    throw CheckpointError(path.string() + " " + error.what());
  }
}

void write_safetensors(const std::filesystem::path& path, const Safetensors& contents) {
  Json text = Json::object();
  if (!contents.metadata.empty()) {
    for (const auto& [key, value] : contents.metadata) text[metadata_key][key] = value;
  }
  // The widest elements first, so that each tensor lies at a multiple of its elements' size.
  std::vector<const StateDict::Entry*> entries;
  for (const auto& entry : contents.tensors) entries.push_back(&entry);
  std::ranges::stable_sort(entries, std::greater<>(),
                           [](const auto* e) { return size_of(e->tensor.dtype()); });
  std::int64_t end = 0;
  for (const auto* entry : entries) {
    const Tensor& tensor = entry->tensor;
    const std::int64_t begin = end;
    end += static_cast<std::int64_t>(tensor.bytes());
    const auto* const type = std::ranges::find(names, tensor.dtype(), &Name::dtype);
    text[entry->name] = {
        {"dtype", type->name},
        {"shape", std::vector<std::int64_t>(tensor.shape().begin(), tensor.shape().end())},
        {"data_offsets", {begin, end}}};
  }
  std::string header = text.dump();
  header.resize((header.size() + 7) / 8 * 8, ' ');

  AtomicFile file(path);
  const std::uint64_t length = header.size();
  file.file().write_at(0, &length, length_bytes);
  file.file().write_at(length_bytes, header.data(), static_cast<std::int64_t>(header.size()));
  std::int64_t at = length_bytes + static_cast<std::int64_t>(header.size());
  for (const auto* entry : entries) {
    const Tensor& tensor = entry->tensor;
    file.file().write_at(at, tensor.data(), static_cast<std::int64_t>(tensor.bytes()));
    at += static_cast<std::int64_t>(tensor.bytes());
  }
  file.publish();
}

}  // namespace lockstep
