#include <lockstep/train/prediction_file.hpp>

#include <hdf5.h>

#include <algorithm>

#include <lockstep/base/error.hpp>
#include <lockstep/io/hdf5_image.hpp>

namespace lockstep::train {
namespace {

Hdf5Handle property_list(hid_t kind) {
  return {H5Pcreate(kind), H5Pclose, "create a property list"};
}

Hdf5Handle space_of(const std::vector<hsize_t>& extents) {
  return {H5Screate_simple(static_cast<int>(extents.size()), extents.data(), nullptr), H5Sclose,
          "create a space"};
}

std::size_t longest_of(const std::vector<std::string>& names) {
  std::size_t longest = 1;
  for (const auto& name : names) longest = std::max(longest, name.size());
  return longest;
}

/// Whether the names exceed the room in a data set's header, 64 KiB: HDF5 1.8 and later store them
/// outside.
bool are_large(const std::vector<std::string>& names) {
  constexpr std::size_t room = 60'000;
  return names.size() * longest_of(names) > room;
}

void set_class_names(const Hdf5Handle& dataset, const std::vector<std::string>& names) {
  const std::size_t longest = longest_of(names);
  std::string text;
  for (const auto& name : names) text += name + std::string(longest - name.size(), '\0');
  const Hdf5Handle type(H5Tcopy(H5T_C_S1), H5Tclose, "copy a type");
  hdf5_check(H5Tset_size(type.id(), longest), "describe text");
  hdf5_check(H5Tset_strpad(type.id(), H5T_STR_NULLPAD), "describe text");
  hdf5_check(H5Tset_cset(type.id(), H5T_CSET_UTF8), "describe text");
  const Hdf5Handle space = space_of({names.size()});
  const Hdf5Handle attribute(
      H5Acreate2(dataset.id(), "class_names", type.id(), space.id(), H5P_DEFAULT, H5P_DEFAULT),
      H5Aclose, "create an attribute");
  hdf5_check(H5Awrite(attribute.id(), type.id(), text.data()), "write an attribute");
}

void make(const Hdf5Handle& file, PlannedArray& array) {
  const Hdf5Handle creation = property_list(H5P_DATASET_CREATE),
                   links = property_list(H5P_LINK_CREATE);
  const char* what = "set up the creation of data sets";
  hdf5_check(H5Pset_layout(creation.id(), H5D_CONTIGUOUS), what);
  hdf5_check(H5Pset_alloc_time(creation.id(), H5D_ALLOC_TIME_EARLY), what);
  hdf5_check(H5Pset_fill_time(creation.id(), H5D_FILL_TIME_NEVER), what);
  hdf5_check(H5Pset_obj_track_times(creation.id(), false),
             what);  // no time stamps: equal data give equal bytes
  if (are_large(array.class_names)) hdf5_check(H5Pset_attr_phase_change(creation.id(), 0, 0), what);
  hdf5_check(H5Pset_create_intermediate_group(links.id(), 1), what);
  const Hdf5Handle space = space_of({array.shape.begin(), array.shape.end()});
  const Hdf5Handle dataset(H5Dcreate2(file.id(), array.name.c_str(),
                                      array.dtype == DType::i64 ? H5T_STD_I64LE : H5T_IEEE_F32LE,
                                      space.id(), links.id(), creation.id(), H5P_DEFAULT),
                           H5Dclose, "create data set " + array.name);
  if (!array.class_names.empty()) set_class_names(dataset, array.class_names);
  if (array.shape.numel() == 0) return;
  const haddr_t offset = H5Dget_offset(dataset.id());
  if (offset == HADDR_UNDEF) throw Error("HDF5 gave no room to data set " + array.name);
  array.offset = static_cast<std::int64_t>(offset);
}

std::int64_t bytes_of(const PlannedArray& array) {
  return array.shape.numel() * static_cast<std::int64_t>(size_of(array.dtype));
}

}  // namespace

std::vector<FilePiece> lay_out(std::vector<PlannedArray>& arrays) {
  const Hdf5Lock lock;
  Hdf5Image image;
  const Hdf5Handle access = property_list(H5P_FILE_ACCESS);
  if (std::ranges::any_of(arrays, are_large, &PlannedArray::class_names)) {
    hdf5_check(H5Pset_libver_bounds(access.id(), H5F_LIBVER_V18, H5F_LIBVER_V18),
               "choose the file's version");
  }
  Hdf5Handle file = image.create(property_list(H5P_FILE_CREATE), access);
  for (PlannedArray& array : arrays) make(file, array);
  file.close("lay out a file in memory");

  std::vector<const PlannedArray*> in_order;
  for (const PlannedArray& array : arrays) {
    if (array.shape.numel() > 0) in_order.push_back(&array);
  }
  std::ranges::sort(in_order, {}, &PlannedArray::offset);
  std::vector<FilePiece> pieces;
  std::int64_t begin = 0;
  const auto add = [&](std::int64_t end) {
    FilePiece piece{begin, std::string(static_cast<std::size_t>(end - begin), '\0')};
    image.read_at(begin, piece.bytes.data(), end - begin);
    pieces.push_back(std::move(piece));
  };
  for (const PlannedArray* array : in_order) {
    add(array->offset);
    begin = array->offset + bytes_of(*array);
  }
  add(image.size());
  return pieces;
}

}  // namespace lockstep::train
