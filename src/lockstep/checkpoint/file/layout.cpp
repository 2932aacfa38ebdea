#include <lockstep/checkpoint/file/layout.hpp>

#include <fmt/format.h>
#include <hdf5.h>

#include <algorithm>
#include <bit>
#include <vector>

#include <lockstep/base/error.hpp>
#include <lockstep/checkpoint/save/chunks.hpp>
#include <lockstep/io/hdf5.hpp>

namespace lockstep {
namespace {

static_assert(std::endian::native == std::endian::little,
              "tensors' bytes are written as they are, under little-endian types");

Hdf5Handle copy_type(hid_t type) { return {H5Tcopy(type), H5Tclose, "copy a type"}; }

/// An IEEE-like float of two bytes; h5py widens types that numpy lacks.
Hdf5Handle half_type(std::size_t exponent_bits, std::size_t bias) {
  auto type = copy_type(H5T_IEEE_F32LE);
  hdf5_check(H5Tset_fields(type.id(), 15, 15 - exponent_bits, exponent_bits, 0, 15 - exponent_bits),
             "describe a 16-bit float");
  hdf5_check(H5Tset_size(type.id(), 2), "describe a 16-bit float");
  hdf5_check(H5Tset_ebias(type.id(), bias), "describe a 16-bit float");
  return type;
}

/// The same as h5py's type for numpy's bool.
Hdf5Handle bool_type() {
  Hdf5Handle type(H5Tenum_create(H5T_STD_I8LE), H5Tclose, "describe bool");
  for (const auto& [name, value] : {std::pair{"FALSE", std::int8_t{0}}, {"TRUE", std::int8_t{1}}})
    hdf5_check(H5Tenum_insert(type.id(), name, &value), "describe bool");
  return type;
}

Hdf5Handle text_type(std::int64_t bytes) {
  auto type = copy_type(H5T_C_S1);
  hdf5_check(H5Tset_size(type.id(), static_cast<std::size_t>(bytes)), "describe text");
  hdf5_check(H5Tset_strpad(type.id(), H5T_STR_NULLPAD), "describe text");
  hdf5_check(H5Tset_cset(type.id(), H5T_CSET_UTF8), "describe text");
  return type;
}

Hdf5Handle type_of(const DatasetEntry& entry) {
  if (entry.text) return text_type(entry.bytes());
  switch (entry.dtype) {
    case DType::f32:
      return copy_type(H5T_IEEE_F32LE);
    case DType::f64:
      return copy_type(H5T_IEEE_F64LE);
    case DType::bf16:
      return half_type(8, 127);
    case DType::f16:
      return half_type(5, 15);
    case DType::i32:
      return copy_type(H5T_STD_I32LE);
    case DType::i64:
      return copy_type(H5T_STD_I64LE);
    case DType::u8:
      return copy_type(H5T_STD_U8LE);
    case DType::boolean:
      return bool_type();
  }
  throw Error("a checkpoint cannot hold dtype " + std::string(name_of(entry.dtype)));
}

std::vector<hsize_t> as_hdf5(const Shape& shape) { return {shape.begin(), shape.end()}; }

Hdf5Handle space_of(const DatasetEntry& entry) {
  if (entry.text || entry.shape.dims() == 0)
    return {H5Screate(H5S_SCALAR), H5Sclose, "create a space"};
  const auto extents = as_hdf5(entry.shape);
  return {H5Screate_simple(entry.shape.dims(), extents.data(), nullptr), H5Sclose,
          "create a space"};
}

/// Creates data sets that are allocated at once, are never filled, and carry no time stamps (groups
/// do: HDF5 1.10 cannot leave them out). Creates missing groups on the way.
class DatasetMaker {
 public:
  DatasetMaker(const Hdf5Handle& file, const Hdf5Image& image) : file_(file.id()), image_(image) {
    hdf5_check(H5Pset_create_intermediate_group(links_.id(), 1), what);
    for (const Hdf5Handle* creation : {&contiguous_, &compressed_}) {
      hdf5_check(H5Pset_fill_time(creation->id(), H5D_FILL_TIME_NEVER), what);
      hdf5_check(H5Pset_obj_track_times(creation->id(), false), what);
    }
    hdf5_check(H5Pset_layout(contiguous_.id(), H5D_CONTIGUOUS), what);
    hdf5_check(H5Pset_alloc_time(contiguous_.id(), H5D_ALLOC_TIME_EARLY), what);
    hdf5_check(H5Pset_layout(compressed_.id(), H5D_CHUNKED), what);
    hdf5_check(H5Pset_shuffle(compressed_.id()), what);
    hdf5_check(H5Pset_deflate(compressed_.id(), 1), what);  // inflating needs no level
  }

  /// Sets the offsets of the data set's bytes, or of its chunks, in the file.
  void make(DatasetEntry& entry) {
    const bool compressed = entry.is_compressed();
    if (compressed) {
      const auto extents = as_hdf5(chunk_shape(entry));
      hdf5_check(H5Pset_chunk(compressed_.id(), static_cast<int>(extents.size()), extents.data()),
                 what);
    }
    const auto type = type_of(entry);
    const auto space = space_of(entry);
    const Hdf5Handle dataset(
        H5Dcreate2(file_, entry.path.c_str(), type.id(), space.id(), links_.id(),
                   (compressed ? compressed_ : contiguous_).id(), H5P_DEFAULT),
        H5Dclose, "create data set " + entry.path);
    if (compressed) return place_chunks(dataset, entry);
    if (entry.bytes() == 0) return;
    const haddr_t offset = H5Dget_offset(dataset.id());
    if (offset == HADDR_UNDEF) throw_no_room(entry);
    entry.offset = static_cast<std::int64_t>(offset);
  }

 private:
  static constexpr const char* what = "set up the creation of data sets";

  [[noreturn]] static void throw_no_room(const DatasetEntry& entry) {
    throw Error("HDF5 gave no room to data set " + entry.path);
  }

  /// HDF5 gets each chunk's length, and bytes that the image does not keep.
  void place_chunks(const Hdf5Handle& dataset, DatasetEntry& entry) {
    for (Slab& slab : entry.slabs) {
      Chunk& chunk = slab.chunk;
      nothing_.resize(std::max(nothing_.size(), static_cast<std::size_t>(chunk.bytes)));
      const auto at = as_hdf5(first_element(entry, slab));
      hdf5_check(H5Dwrite_chunk(dataset.id(), H5P_DEFAULT, 0, at.data(),
                                static_cast<std::size_t>(chunk.bytes), nothing_.data()),
                 "place a chunk of data set " + entry.path);
      const Hdf5Image::Extent put = image_.last_elements();
      if (put.bytes != chunk.bytes) throw_no_room(entry);
      chunk.at = put.offset;
    }
  }

  Hdf5Id file_;
  const Hdf5Image& image_;
  std::vector<char> nothing_;
  Hdf5Handle contiguous_{H5Pcreate(H5P_DATASET_CREATE), H5Pclose, "create a property list"};
  Hdf5Handle compressed_{H5Pcreate(H5P_DATASET_CREATE), H5Pclose, "create a property list"};
  Hdf5Handle links_{H5Pcreate(H5P_LINK_CREATE), H5Pclose, "create a property list"};
};

/// Groups whose members h5py lists in the order of the model, not of the alphabet.
void make_group(const Hdf5Handle& file, const char* name) {
  const Hdf5Handle creation(H5Pcreate(H5P_GROUP_CREATE), H5Pclose, "create a property list");
  hdf5_check(
      H5Pset_link_creation_order(creation.id(), H5P_CRT_ORDER_TRACKED | H5P_CRT_ORDER_INDEXED),
      "order a group");
  const Hdf5Handle group(H5Gcreate2(file.id(), name, H5P_DEFAULT, creation.id(), H5P_DEFAULT),
                         H5Gclose, std::string("create group ") + name);
}

void set_format_attribute(const Hdf5Handle& file, int format) {
  const Hdf5Handle space(H5Screate(H5S_SCALAR), H5Sclose, "create a space");
  const Hdf5Handle attribute(
      H5Acreate2(file.id(), "lockstep_format", H5T_STD_I32LE, space.id(), H5P_DEFAULT, H5P_DEFAULT),
      H5Aclose, "create an attribute");
  hdf5_check(H5Awrite(attribute.id(), H5T_NATIVE_INT, &format), "write an attribute");
}

}  // namespace

Header lay_out(Manifest& manifest, Hdf5Image& image) {
  const Hdf5Lock lock;
  const Hdf5Handle creation(H5Pcreate(H5P_FILE_CREATE), H5Pclose, "create a property list");
  hdf5_check(H5Pset_userblock(creation.id(), Header::bytes), "reserve the header");
  const Hdf5Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose, "create a property list");
  // Compact groups and checksums in HDF5's own structure; readable by every HDF5 since 1.8.
  hdf5_check(H5Pset_libver_bounds(access.id(), H5F_LIBVER_V18, H5F_LIBVER_V18),
             "choose the file's version");
  Hdf5Handle file = image.create(creation, access);
  Header header;
  header.format = manifest.format();
  set_format_attribute(file, header.format);
  for (const auto* group : {"/model", "/optimizer", "/train", "/metadata"}) make_group(file, group);
  DatasetMaker maker(file, image);
  for (auto& entry : manifest.datasets) maker.make(entry);
  DatasetEntry text;
  text.path = "/manifest";
  text.text = true;
  text.shape = Shape{static_cast<std::int64_t>(manifest.to_text().size())};
  maker.make(text);
  header.manifest = {text.offset, text.bytes()};
  file.close("lay out a file in memory");
  header.file_bytes = image.size();
  return header;
}

}  // namespace lockstep
