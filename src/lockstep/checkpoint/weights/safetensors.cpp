#include <lockstep/checkpoint/weights/safetensors.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>
#include <unordered_set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <lockstep/base/error.hpp>
#include <lockstep/base/utf8.hpp>
#include <lockstep/io/atomic_file.hpp>

namespace lockstep {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::int64_t length_bytes = 8;
constexpr std::int64_t longest_text = 100'000'000;  // the limit of the format's own library
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
  if (found == names.end())
    throw Error(fmt::format("is of type {}, which Lockstep does not support", name));
  return found->dtype;
}

/// A tensor of the file; its bytes are counted from the end of the text.
struct Place {
  std::string name;
  DType dtype = DType::u8;
  Shape shape;
  std::int64_t begin = 0, end = 0;
};

std::int64_t whole_number(const Json& json) {
  if (!json.is_number_unsigned()) throw Error("has a size that is not a whole number");
  const auto number = json.get<std::uint64_t>();
  if (number > std::uint64_t{1} << 56U) throw Error("has an impossible size");
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
  if (elements > 1e17) throw Error("has more elements than a tensor can have");
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

/// Contents of the text.
struct Contents {
  std::vector<Place> places;
  std::vector<std::pair<std::string, std::string>> metadata;
};

/// Keeps only one tensor's entry of the text at a time, since JSON objects with 100,000 names take
/// minutes. Refuses duplicate names, and nesting deeper than an entry.
class Text {
 public:
  explicit Text(const std::string& text) {
    const Json rest = Json::parse(
        text, [this](int depth, Event event, Json& parsed) { return take(depth, event, parsed); });
    if (!rest.is_object()) throw Error(no_object);
  }
  Contents contents;

  static constexpr const char* no_object =
      "is not a safetensors file: no JSON object follows its first 8 bytes";

 private:
  using Event = Json::parse_event_t;

  /// False for values that need not be kept.
  bool take(int depth, Event event, Json& parsed) {
    constexpr int deepest = 3;  // {"name": {"shape": [2, 3]}}
    if (depth > deepest || (depth == deepest && event != Event::value))
      throw Error("is damaged: its JSON text is nested too deeply");
    if (depth == 0 && (event == Event::array_start || event == Event::value))
      throw Error(no_object);
    const bool in_metadata = depth == 2 && name_ == metadata_key;
    if (event == Event::object_start) names_[static_cast<std::size_t>(depth)].clear();
    if (event == Event::key) {
      key_ = parsed.get<std::string>();
      if (!names_[static_cast<std::size_t>(depth) - 1].insert(key_).second)
        throw Error(fmt::format("is damaged: the name {} occurs twice", key_));
      if (depth == 1) name_ = key_;
      return !in_metadata;
    }
    if (in_metadata && event == Event::value)
      contents.metadata.emplace_back(
          key_, parsed.is_string() ? parsed.get<std::string>() : parsed.dump());
    const bool whole =
        event == Event::object_end || event == Event::array_end || event == Event::value;
    if (depth != 1 || !whole) return true;
    if (name_ != metadata_key) add_place(parsed);
    return false;
  }

  void add_place(const Json& entry) {
    try {
      contents.places.push_back(place_of(name_, entry));
    } catch (const std::exception& error) {
      throw Error(fmt::format("is damaged: tensor {} {}", name_, error.what()));
    }
  }

  std::array<std::unordered_set<std::string>, 3>
      names_;               ///< names of the open object at each depth
  std::string key_, name_;  ///< the newest name, and that of depth 1
};

/// Sorted by their bytes, which they cover without a gap.
void sort_places(std::vector<Place>& places, std::int64_t data_bytes) {
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
  if (at == data_bytes) return;
  throw Error(fmt::format("is damaged, or was cut off: its tensors have {} bytes, the file {}", at,
                          data_bytes));
}

Contents read_text(const File& file, std::int64_t& text_bytes) {
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
    return Text(text).contents;
  } catch (const Json::exception&) {
    throw Error(Text::no_object);
  }
}

bool is_utf8(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const int bytes = utf8_character(text, at).bytes;
    if (bytes == 0) return false;
    at += static_cast<std::size_t>(bytes);
  }
  return true;
}

/// Throws Error for contents that the text cannot hold.
void expect_names(const Safetensors& contents) {
  for (const auto& entry : contents.tensors) {
    if (entry.name == metadata_key) {
      throw Error(fmt::format(
          "tensor {} has the name of the format's own metadata. Give it another name", entry.name));
    }
    if (!is_utf8(entry.name)) {
      throw Error(
          fmt::format("tensor {} has a name that is not UTF-8. Give it another name", entry.name));
    }
  }
  for (const auto& [key, value] : contents.metadata) {
    if (!is_utf8(key) || !is_utf8(value))
      throw Error(fmt::format("the metadata {} are not UTF-8. Write them as UTF-8", key));
  }
}

}  // namespace

Safetensors read_safetensors(const std::filesystem::path& path) {
  try {
    const File file = File::open_for_reading(path);
    std::int64_t text_bytes = 0;
    Contents text = read_text(file, text_bytes);
    const std::int64_t data = length_bytes + text_bytes;
    sort_places(text.places, file.size() - data);
    Safetensors contents;
    contents.metadata = std::move(text.metadata);
    for (const Place& place : text.places) {
      const Tensor tensor = Tensor::empty(place.shape, place.dtype);
      file.read_at(data + place.begin, tensor.data(), place.end - place.begin);
      contents.tensors.insert(place.name, tensor);
    }
    return contents;
  } catch (const FileError& error) {
    throw CheckpointError(error.what());
  } catch (const std::exception& error) {
    throw CheckpointError(path.string() + " " + error.what());
  }
}

void write_safetensors(const std::filesystem::path& path, const Safetensors& contents) {
  try {
    expect_names(contents);
  } catch (const Error& error) {
    throw CheckpointError(path.string() + " was not written: " + error.what());
  }
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
    const Tensor tensor = entry->tensor.to(Device{});
    file.file().write_at(at, tensor.data(), static_cast<std::int64_t>(tensor.bytes()));
    at += static_cast<std::int64_t>(tensor.bytes());
  }
  file.publish();
}

}  // namespace lockstep
