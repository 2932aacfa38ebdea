#include <lockstep/data/hdf5_array.hpp>

#include <fmt/format.h>
#include <hdf5.h>

#include <algorithm>
#include <array>
#include <bit>
#include <optional>
#include <type_traits>
#include <utility>

#include <lockstep/data/hdf5_listing.hpp>
#include <lockstep/data/looked_for.hpp>
#include <lockstep/io/file.hpp>
#include <lockstep/io/hdf5.hpp>

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using Extents = std::array<hsize_t, Shape::max_dims>;

/// How elements are stored, where they can be read without HDF5.
enum class Stored { f32, f64, u8, i32, i64, other };

Stored stored_as(hid_t type) {
  if constexpr (std::endian::native != std::endian::little) return Stored::other;
  const std::array<std::pair<hid_t, Stored>, 4> known{{{H5T_IEEE_F32LE, Stored::f32},
                                                       {H5T_IEEE_F64LE, Stored::f64},
                                                       {H5T_STD_I32LE, Stored::i32},
                                                       {H5T_STD_I64LE, Stored::i64}}};
  for (const auto& [id, stored] : known) {
    if (H5Tequal(type, id) > 0) return stored;
  }
  return Stored::other;
}

template <class T>
hid_t memory_type() {
  if constexpr (std::is_same_v<T, float>) return H5T_NATIVE_FLOAT;
  if constexpr (std::is_same_v<T, std::int64_t>) return H5T_NATIVE_INT64;
  return H5T_NATIVE_UINT8;
}

/// Reads elements of type From at `offset` and converts them, by way of a buffer on the stack.
template <class From, class T>
void pread_converted(const File& file, std::int64_t offset, std::span<T> out) {
  if constexpr (std::is_same_v<From, T>) {
    file.read_at(offset, out.data(), static_cast<std::int64_t>(out.size_bytes()));
  } else {
    std::array<From, 4096> piece;
    while (!out.empty()) {
      const auto count = std::min(piece.size(), out.size());
      const auto size = static_cast<std::int64_t>(count * sizeof(From));
      file.read_at(offset, piece.data(), size);
      std::transform(piece.begin(), piece.begin() + static_cast<std::ptrdiff_t>(count), out.begin(),
                     [](From value) { return static_cast<T>(value); });
      offset += size;
      out = out.subspan(count);
    }
  }
}

File open_file(const fs::path& path) {
  std::error_code ignored;
  if (!fs::exists(path, ignored)) {
    throw InputError(
        fmt::format("data file {} is missing. Point data.path at an HDF5 file, or make the one of "
                    "inputs/heat.toml with the program heat_data.",
                    detail::looked_for(path)));
  }
  if (!fs::is_regular_file(path, ignored)) {
    throw InputError(
        fmt::format("data.path names {}, which is not a file. Point it at an HDF5 file.",
                    detail::looked_for(path)));
  }
  try {
    return File::open_for_reading(path);
  } catch (const Error& error) {
    throw InputError(error.what());
  }
}

}  // namespace

struct Hdf5Array::State {
  State(const fs::path& path, const std::string& name, std::int64_t cache_bytes)
      : raw(open_file(path)), file_bytes(raw.size()), modified_ns(raw.modified_ns()) {
    const Hdf5Lock lock;
    if (H5Fis_hdf5(path.c_str()) <= 0) {
      throw InputError(
          fmt::format("data file {} is not an HDF5 file. Point data.path at one, or set data.kind "
                      "to what it is.",
                      path.string()));
    }
    try {
      file.emplace(H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT), H5Fclose, "open it");
      const Hdf5Handle access = examine(path, name, cache_bytes);
      dataset.emplace(H5Dopen2(file->id(), name.c_str(), access.id()), H5Dclose, "open " + name);
      space.emplace(H5Dget_space(dataset->id()), H5Sclose, "examine " + name);
    } catch (const InputError&) {
      throw;
    } catch (const Error& error) {
      throw InputError(fmt::format("data file {} is damaged or incomplete: {}. Get a fresh copy.",
                                   path.string(), error.what()));
    }
  }

  /// Learns all about the data set; returns how to open it for reading. It is closed again, because
  /// HDF5 gives an open data set no other cache.
  Hdf5Handle examine(const fs::path& path, const std::string& name, std::int64_t cache_bytes) {
    const Hdf5Handle found = open_data_set(file->id(), name, path.string());
    const Hdf5Handle type(H5Dget_type(found.id()), H5Tclose, "examine " + name);
    const Hdf5Handle extent(H5Dget_space(found.id()), H5Sclose, "examine " + name);
    const H5T_class_t type_class = H5Tget_class(type.id());
    const int dims = H5Sget_simple_extent_ndims(extent.id());
    if (type_class != H5T_INTEGER && type_class != H5T_FLOAT) {
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
    std::array<std::int64_t, Shape::max_dims> signed_extents{};
    std::copy(extents.begin(), extents.end(), signed_extents.begin());
    shape = Shape(std::span(signed_extents).first(static_cast<std::size_t>(dims)));
    row_elements = shape[0] == 0 ? 0 : shape.numel() / shape[0];
    integers = type_class == H5T_INTEGER;
    element_bytes = static_cast<std::int64_t>(H5Tget_size(type.id()));
    const bool bytes = integers && element_bytes == 1 && H5Tget_sign(type.id()) == H5T_SGN_NONE;
    stored = bytes ? Stored::u8 : stored_as(type.id());
    description = fmt::format("{} of {}, {}", name, path.string(), describe_data_set(found.id()));
    const Hdf5Handle layout(H5Dget_create_plist(found.id()), H5Pclose, "examine " + name);
    Hdf5Handle access(H5Pcreate(H5P_DATASET_ACCESS), H5Pclose, "make a property list");
    if (H5Pget_layout(layout.id()) == H5D_CONTIGUOUS)
      find_bytes(found.id(), layout.id(), path, name);
    if (H5Pget_layout(layout.id()) == H5D_CHUNKED) {
      expect_possible_chunks(found.id(), extent.id(), layout.id());
      set_cache(layout.id(), access.id(), cache_bytes);
    }
    return access;
  }

  void find_bytes(hid_t found, hid_t layout, const fs::path& path, const std::string& name) {
    const haddr_t address = H5Dget_offset(found);
    if (stored == Stored::other || H5Pget_external_count(layout) != 0 || address == HADDR_UNDEF)
      return;
    offset = static_cast<std::int64_t>(address);
    const std::int64_t end = offset + shape.numel() * element_bytes;
    if (end > file_bytes) {
      throw InputError(
          fmt::format("data file {} is truncated: {} needs bytes {} to {}, but the file has {}. "
                      "Get a fresh copy.",
                      path.string(), name, offset, end, file_bytes));
    }
  }

  /// HDF5 1.10 believes the size of a chunk, and reads behind the end of one that is smaller.
  void expect_possible_chunks(hid_t found, hid_t extent, hid_t layout) const {
    Extents chunk{}, largest{};
    H5Pget_chunk(layout, shape.dims(), chunk.data());
    H5Sget_simple_extent_dims(extent, nullptr, largest.data());
    constexpr hsize_t most_bytes = hsize_t{1} << 32U;  // HDF5's own limit
    auto bytes = static_cast<hsize_t>(element_bytes);
    for (std::size_t d = 0; d < static_cast<std::size_t>(shape.dims()); ++d) {
      bytes *= chunk[d];
      if (chunk[d] < 1 || chunk[d] > largest[d] || bytes >= most_bytes)
        throw Error("its chunks are larger than the data set");
    }
    if (H5Pget_nfilters(layout) == 0 && H5Dget_storage_size(found) % bytes != 0)
      throw Error("what is stored is no whole number of chunks");
  }

  /// HDF5 does not keep a chunk that is larger than its cache, which would decode it anew for every
  /// row: so there is always room for one row of chunks, side by side.
  void set_cache(hid_t layout, hid_t access, std::int64_t cache_bytes) {
    Extents chunk{};
    H5Pget_chunk(layout, shape.dims(), chunk.data());
    chunk_rows = static_cast<std::int64_t>(chunk[0]);
    std::int64_t side_by_side = 1, bytes = element_bytes;
    for (int d = 0; d < shape.dims(); ++d) {
      const auto extent = static_cast<std::int64_t>(chunk[static_cast<std::size_t>(d)]);
      if (d > 0) side_by_side *= (shape[d] + extent - 1) / extent;
      bytes *= extent;
    }
    const std::int64_t budget = std::max(cache_bytes, side_by_side * bytes);
    // HDF5's manual: a prime about 100 times the chunks that fit; any odd number spreads as well.
    const std::int64_t slots = std::min<std::int64_t>(100 * (budget / bytes) + 1, 1'000'003);
    hdf5_check(H5Pset_chunk_cache(access, static_cast<std::size_t>(slots),
                                  static_cast<std::size_t>(budget), 0.0),
               "set a chunk cache");
  }

  template <class T>
  void read(std::int64_t begin, std::int64_t end, std::span<T> out) const {
    if (begin < 0 || begin > end || end > shape[0] ||
        static_cast<std::int64_t>(out.size()) != (end - begin) * row_elements) {
      throw Error(fmt::format("rows {} to {} of {} do not fit into {} elements", begin, end,
                              description, out.size()));
    }
    if (out.empty()) return;
    try {
      if (offset >= 0) {
        pread_rows(offset + begin * row_elements * element_bytes, out);
      } else {
        hdf5_rows(begin, end, out.data(), memory_type<T>());
      }
    } catch (const Error& error) {
      throw InputError(fmt::format(
          "rows {} to {} of {} cannot be read: {}. The file is damaged: get a fresh copy of it.",
          begin, end, description, error.what()));
    }
  }

  template <class T>
  void pread_rows(std::int64_t at, std::span<T> out) const {
    switch (stored) {
      case Stored::f32:
        return pread_converted<float>(raw, at, out);
      case Stored::f64:
        return pread_converted<double>(raw, at, out);
      case Stored::u8:
        return pread_converted<std::uint8_t>(raw, at, out);
      case Stored::i32:
        return pread_converted<std::int32_t>(raw, at, out);
      case Stored::i64:
        return pread_converted<std::int64_t>(raw, at, out);
      case Stored::other:
        throw Error("internal error: a type that only HDF5 reads");
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

  File raw;
  std::int64_t file_bytes, modified_ns;
  std::optional<Hdf5Handle> file, dataset, space;
  Shape shape;
  std::int64_t row_elements = 0, element_bytes = 0, chunk_rows = 1;
  std::int64_t offset = -1;  ///< of the first element in the file; -1: only HDF5 can read it
  Stored stored = Stored::other;
  bool integers = false;
  std::string description;
};

Hdf5Array::Hdf5Array(const std::filesystem::path& file, const std::string& name,
                     std::int64_t cache_bytes)
    : state_(std::make_unique<State>(file, name, cache_bytes)) {}
Hdf5Array::~Hdf5Array() = default;

const Shape& Hdf5Array::shape() const noexcept { return state_->shape; }
std::int64_t Hdf5Array::row_elements() const noexcept { return state_->row_elements; }
bool Hdf5Array::integers() const noexcept { return state_->integers; }
bool Hdf5Array::bytes() const noexcept { return state_->stored == Stored::u8; }
std::int64_t Hdf5Array::chunk_rows() const noexcept { return state_->chunk_rows; }
const std::string& Hdf5Array::description() const noexcept { return state_->description; }

void Hdf5Array::read(std::int64_t begin, std::int64_t end, std::span<float> out) const {
  state_->read(begin, end, out);
}
void Hdf5Array::read(std::int64_t begin, std::int64_t end, std::span<std::int64_t> out) const {
  state_->read(begin, end, out);
}
void Hdf5Array::read(std::int64_t begin, std::int64_t end, std::span<std::uint8_t> out) const {
  state_->read(begin, end, out);
}

void Hdf5Array::expect_unchanged() const {
  const State& s = *state_;
  if (s.raw.size() == s.file_bytes && s.raw.modified_ns() == s.modified_ns) return;
  throw InputError(fmt::format(
      "data file {} was changed while the run reads it, so earlier and later samples do not belong "
      "together. Start again, and write new data to a new file.",
      s.raw.path().string()));
}

}  // namespace lockstep
