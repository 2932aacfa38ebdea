#include <lockstep/data/files/hdf5_array.hpp>

#include <fmt/format.h>
#include <hdf5.h>

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include <lockstep/data/files/data_file.hpp>
#include <lockstep/data/files/hdf5_listing.hpp>
#include <lockstep/data/files/raw_numbers.hpp>
#include <lockstep/io/hdf5_elements.hpp>
#include <lockstep/io/hdf5_file.hpp>

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using Extents = std::array<hsize_t, Shape::max_dims>;

/// For types that can be read without HDF5.
std::optional<StoredType> stored_as(hid_t type) {
  if constexpr (std::endian::native != std::endian::little) return std::nullopt;
  const std::array<std::pair<hid_t, StoredType>, 5> known{{{H5T_IEEE_F32LE, StoredType::f32},
                                                           {H5T_IEEE_F64LE, StoredType::f64},
                                                           {H5T_STD_U8LE, StoredType::u8},
                                                           {H5T_STD_I32LE, StoredType::i32},
                                                           {H5T_STD_I64LE, StoredType::i64}}};
  for (const auto& [id, stored] : known) {
    if (H5Tequal(type, id) > 0) return stored;
  }
  return std::nullopt;
}

template <class T>
hid_t memory_type() {
  if constexpr (std::is_same_v<T, float>) return H5T_NATIVE_FLOAT;
  if constexpr (std::is_same_v<T, std::int64_t>) return H5T_NATIVE_INT64;
  return H5T_NATIVE_UINT8;
}

/// "lzf (32000)": the first filter of a data set that this HDF5 lacks.
std::optional<std::string> missing_filter(hid_t dataset) {
  const Hdf5Lock lock;
  const Hdf5Handle layout(H5Dget_create_plist(dataset), H5Pclose, "examine a data set");
  const int filters = H5Pget_nfilters(layout.id());
  for (int i = 0; i < filters; ++i) {
    std::array<char, 64> name{};
    unsigned flags = 0;
    const H5Z_filter_t filter =
        H5Pget_filter2(layout.id(), static_cast<unsigned>(i), &flags, nullptr, nullptr,
                       name.size() - 1, name.data(), nullptr);
    if (filter < 0 || H5Zfilter_avail(filter) > 0) continue;
    H5Eclear2(H5E_DEFAULT);
    return name[0] == '\0' ? fmt::format("{}", filter)
                           : fmt::format("{} ({})", name.data(), filter);
  }
  return std::nullopt;
}

/// The numbers of an attribute; none if there is no such attribute, or it holds no numbers.
std::vector<double> attribute(hid_t data_set, const char* name) {
  if (H5Aexists(data_set, name) <= 0) return {};
  const Hdf5Handle found(H5Aopen(data_set, name, H5P_DEFAULT), H5Aclose, "open an attribute");
  const Hdf5Handle type(H5Aget_type(found.id()), H5Tclose, "examine an attribute");
  const Hdf5Handle extent(H5Aget_space(found.id()), H5Sclose, "examine an attribute");
  const H5T_class_t kind = H5Tget_class(type.id());
  const hssize_t count = H5Sget_simple_extent_npoints(extent.id());
  constexpr hssize_t most = 16;
  if ((kind != H5T_INTEGER && kind != H5T_FLOAT) || count < 1 || count > most) return {};
  std::vector<double> numbers(static_cast<std::size_t>(count));
  hdf5_check(H5Aread(found.id(), H5T_NATIVE_DOUBLE, numbers.data()), "read an attribute");
  return numbers;
}

/// netCDF's conventions: data may be packed, as integers that stand for other numbers.
void refuse_packed(hid_t data_set, const fs::path& path, const std::string& name) {
  for (const auto& [attribute_name, usual] :
       {std::pair("scale_factor", 1.0), std::pair("add_offset", 0.0)}) {
    const auto numbers = attribute(data_set, attribute_name);
    if (numbers.empty() || numbers[0] == usual) continue;
    throw InputError(fmt::format(
        "data set {} of {} is packed: its attribute {} = {} says how its numbers turn "
        "into values. Write the values into a data set of floating-point numbers (ncpdq "
        "-U, or xarray, does).",
        name, path.string(), attribute_name, numbers[0]));
  }
}

constexpr const char* where_to_get_one =
    "Name an HDF5 file, or make the one of inputs/heat.toml with the program "
    "heat_data.";

}  // namespace

struct Hdf5Array::State {
  State(const fs::path& path, const std::string& name, std::int64_t cache_bytes,
        ExternalElements external)
      : raw(path, where_to_get_one) {
    const Hdf5Lock lock;
    if (H5Fis_hdf5(path.c_str()) == 0) {
      throw InputError(
          fmt::format("data file {} is not an HDF5 file. Name one, or, in a deck, set data.kind to "
                      "the file's kind.",
                      path.string()));
    }
    try {
      file.emplace(open_hdf5_for_reading(path));
      const Hdf5Handle access = examine(path, name, cache_bytes, external);
      dataset.emplace(H5Dopen2(file->id(), name.c_str(), access.id()), H5Dclose, "open " + name);
      space.emplace(H5Dget_space(dataset->id()), H5Sclose, "examine " + name);
    } catch (const InputError&) {
      throw;
    } catch (const FileError& error) {
      throw InputError(error.what());
    } catch (const Error& error) {
      throw InputError(fmt::format("data file {} is damaged or incomplete: {}. Get a fresh copy.",
                                   path.string(), error.what()));
    }
  }

  /// Examines the data set; returns how to open it for reading. It is closed again, because HDF5
  /// gives an open data set no other cache.
  Hdf5Handle examine(const fs::path& path, const std::string& name, std::int64_t cache_bytes,
                     ExternalElements external) {
    const Hdf5Handle found = open_data_set(file->id(), name, path.string());
    const Hdf5Handle type(H5Dget_type(found.id()), H5Tclose, "examine " + name);
    const Hdf5Handle extent(H5Dget_space(found.id()), H5Sclose, "examine " + name);
    const H5T_class_t type_class = H5Tget_class(type.id());
    const int dims = H5Sget_simple_extent_ndims(extent.id());
    const bool boolean = is_boolean(type.id());
    const bool numbers = type_class == H5T_INTEGER || type_class == H5T_FLOAT || boolean;
    if (!numbers || H5Tget_size(type.id()) == 0) {
      throw InputError(
          fmt::format("data set {} of {} does not hold numbers. Name one of integers or "
                      "floating-point numbers.",
                      name, path.string()));
    }
    if (dims < 1 || dims > Shape::max_dims) {
      throw InputError(fmt::format(
          "data set {} of {} has {} dimensions; it must have 1 to {}: samples [N, ...].", name,
          path.string(), dims, Shape::max_dims));
    }
    Extents extents{};
    H5Sget_simple_extent_dims(extent.id(), extents.data(), nullptr);
    expect_possible_extents(std::span(extents).first(static_cast<std::size_t>(dims)),
                            H5Tget_size(type.id()));
    std::array<std::int64_t, Shape::max_dims> signed_extents{};
    std::copy(extents.begin(), extents.end(), signed_extents.begin());
    shape = Shape(std::span(signed_extents).first(static_cast<std::size_t>(dims)));
    row_elements = shape[0] == 0 ? 0 : shape.numel() / shape[0];
    integers = type_class != H5T_FLOAT;
    element_bytes = static_cast<std::int64_t>(H5Tget_size(type.id()));
    bytes =
        type_class == H5T_INTEGER && element_bytes == 1 && H5Tget_sign(type.id()) == H5T_SGN_NONE;
    stored = boolean ? StoredType::boolean : stored_as(type.id());
    refuse_packed(found.id(), path, name);
    for (const char* const word : {"_FillValue", "missing_value"}) {
      for (const double number : attribute(found.id(), word)) missing.emplace_back(number, word);
    }
    description = fmt::format("{} of {}, {}", name, path.string(), describe_data_set(found.id()));
    const Hdf5Handle layout(H5Dget_create_plist(found.id()), H5Pclose, "examine " + name);
    Hdf5Handle access(H5Pcreate(H5P_DATASET_ACCESS), H5Pclose, "make a property list");
    if (H5Pget_layout(layout.id()) == H5D_CONTIGUOUS && !is_in_other_file(*file, found.id()))
      find_bytes(found.id(), layout.id(), path, name);
    if (H5Pget_layout(layout.id()) == H5D_CHUNKED) {
      expect_possible_chunks(found.id(), extent.id(), layout.id());
      set_cache(layout.id(), access.id(), cache_bytes);
    }
    try {
      expect_elements(*file, found.id(), path, external);
    } catch (const ExternalElementsError& error) {
      throw InputError(
          fmt::format("data set {} of {} {}. If those files are meant, set data.allow_external = "
                      "true (lockstep predict --allow-external).",
                      name, path.string(), error.what()));
    } catch (const Error& error) {
      throw InputError(fmt::format("data set {} of {} {}.", name, path.string(), error.what()));
    }
    return access;
  }

  void find_bytes(hid_t found, hid_t layout, const fs::path& path, const std::string& name) {
    const haddr_t address = H5Dget_offset(found);
    if (!stored || H5Pget_external_count(layout) != 0 || address == HADDR_UNDEF) return;
    offset = static_cast<std::int64_t>(address);
    const std::int64_t end = offset + shape.numel() * element_bytes;
    if (end > raw.bytes()) {
      throw InputError(
          fmt::format("data file {} is truncated: {} needs bytes {} to {}, but the file has {}. "
                      "Get a fresh copy.",
                      path.string(), name, offset, end, raw.bytes()));
    }
  }

  /// Bounds sizes so that no product of them overflows, even with the elements' size.
  static void expect_possible_extents(std::span<const hsize_t> extents, std::size_t element_bytes) {
    constexpr hsize_t most = hsize_t{1} << 60U;
    hsize_t bytes = std::max<hsize_t>(element_bytes, sizeof(double));
    for (const hsize_t extent : extents) {
      if (extent >= most / bytes) throw Error("it is larger than any file can be");
      bytes *= std::max<hsize_t>(extent, 1);
    }
  }

  /// HDF5 1.10 trusts the stored size of a chunk, and reads past the end of a smaller one.
  void expect_possible_chunks(hid_t found, hid_t extent, hid_t layout) const {
    Extents chunk{}, largest{};
    H5Pget_chunk(layout, shape.dims(), chunk.data());
    H5Sget_simple_extent_dims(extent, nullptr, largest.data());
    constexpr hsize_t most_bytes = hsize_t{1} << 32U;  // HDF5's own limit
    auto bytes = static_cast<hsize_t>(element_bytes);
    for (std::size_t d = 0; d < static_cast<std::size_t>(shape.dims()); ++d) {
      if (chunk[d] < 1 || chunk[d] > largest[d] || chunk[d] >= most_bytes / bytes)
        throw Error("its chunks are larger than the data set");
      bytes *= chunk[d];
    }
    if (H5Pget_nfilters(layout) == 0 && H5Dget_storage_size(found) % bytes != 0)
      throw Error("the stored size is not a whole number of chunks");
  }

  /// HDF5 does not cache a chunk larger than its cache, and would decode it anew for every row. So
  /// there is always room for one row of chunks side by side.
  void set_cache(hid_t layout, hid_t access, std::int64_t cache_bytes) {
    Extents chunk{};
    H5Pget_chunk(layout, shape.dims(), chunk.data());
    std::int64_t side_by_side = 1, bytes = element_bytes;
    for (int d = 0; d < shape.dims(); ++d) {
      const auto extent = static_cast<std::int64_t>(chunk[static_cast<std::size_t>(d)]);
      if (d > 0) side_by_side *= (shape[d] + extent - 1) / extent;
      bytes *= extent;
    }
    const std::int64_t budget = std::max(cache_bytes, side_by_side * bytes);
    // HDF5's manual asks for a prime of about 100 times the number of chunks that fit; any odd
    // number spreads as well.
    const std::int64_t slots = std::min<std::int64_t>(100 * (budget / bytes) + 1, 1'000'003);
    hdf5_check(H5Pset_chunk_cache(access, static_cast<std::size_t>(slots),
                                  static_cast<std::size_t>(budget), 0.0),
               "set a chunk cache");
  }

  template <class T>
  void read(std::int64_t begin, std::int64_t end, std::span<T> out) const {
    if (out.empty()) return;
    try {
      if (offset >= 0) {
        read_numbers(*raw.open(), offset + begin * row_elements * element_bytes, *stored, out);
      } else {
        hdf5_rows(begin, end, out.data(), memory_type<T>());
      }
    } catch (const Error& error) {
      if (const auto filter = missing_filter(dataset->id())) {
        throw InputError(fmt::format(
            "rows {} to {} of {} cannot be read: the data set is compressed with filter {}, which "
            "this HDF5 does not have. Rewrite it with compression=\"gzip\".",
            begin, end, description, *filter));
      }
      throw InputError(fmt::format(
          "rows {} to {} of {} cannot be read: {}. The file is damaged: get a fresh copy of it.",
          begin, end, description, error.what()));
    }
    expect_none_missing(begin, std::span<const T>(out));
  }

  template <class T>
  void expect_none_missing(std::int64_t begin, std::span<const T> numbers) const {
    for (const auto& [number, attribute] : missing) {
      constexpr auto least = static_cast<double>(std::numeric_limits<T>::lowest()),
                     most = static_cast<double>(std::numeric_limits<T>::max());
      if (std::is_integral_v<T> && !(number >= least && number < most + 1)) continue;
      const auto at = std::ranges::find(numbers, static_cast<T>(number));
      if (at == numbers.end()) continue;
      const std::int64_t i = at - numbers.begin();
      throw InputError(
          fmt::format("{}: element {} of sample {} is {:g}, which stands for a missing value "
                      "(attribute {}): fill the gap, or leave the sample out.",
                      description, i % row_elements, begin + i / row_elements, number, attribute));
    }
  }

  void hdf5_rows(std::int64_t begin, std::int64_t end, void* out, hid_t type) const {
    const Hdf5Lock lock;
    Extents first{}, count{};
    std::copy(shape.begin(), shape.end(), count.begin());
    first[0] = static_cast<hsize_t>(begin);
    count[0] = static_cast<hsize_t>(end - begin);
    const Hdf5Handle memory(H5Screate_simple(shape.dims(), count.data(), nullptr), H5Sclose,
                            "select");
    if (H5Sselect_hyperslab(space->id(), H5S_SELECT_SET, first.data(), nullptr, count.data(),
                            nullptr) < 0 ||
        H5Dread(dataset->id(), type, memory.id(), space->id(), H5P_DEFAULT, out) < 0) {
      hdf5_check(-1, "read them");
    }
  }

  DataFile raw;
  std::optional<Hdf5Handle> file, dataset, space;
  Shape shape;
  std::int64_t row_elements = 0, element_bytes = 0;
  std::int64_t offset = -1;  ///< offset of the first element in the file; -1: only HDF5 can read it
  std::optional<StoredType> stored;
  bool integers = false, bytes = false;
  std::vector<std::pair<double, const char*>> missing;  ///< values, and the attributes that say so
  std::string description;
};

Hdf5Array::Hdf5Array(const std::filesystem::path& file, const std::string& name,
                     std::int64_t cache_bytes, ExternalElements external)
    : state_(std::make_unique<State>(file, name, cache_bytes, external)) {}
Hdf5Array::~Hdf5Array() = default;

const Shape& Hdf5Array::shape() const noexcept { return state_->shape; }
bool Hdf5Array::integers() const noexcept { return state_->integers; }
bool Hdf5Array::bytes() const noexcept { return state_->bytes; }
const std::string& Hdf5Array::description() const noexcept { return state_->description; }

void Hdf5Array::read(std::int64_t begin, std::int64_t end, std::span<float> out) const {
  expect_rows(begin, end, std::ssize(out));
  state_->read(begin, end, out);
}
void Hdf5Array::read(std::int64_t begin, std::int64_t end, std::span<std::int64_t> out) const {
  expect_rows(begin, end, std::ssize(out));
  state_->read(begin, end, out);
}
void Hdf5Array::read(std::int64_t begin, std::int64_t end, std::span<std::uint8_t> out) const {
  expect_rows(begin, end, std::ssize(out));
  state_->read(begin, end, out);
}

void Hdf5Array::expect_unchanged() const { state_->raw.expect_unchanged(); }

}  // namespace lockstep
