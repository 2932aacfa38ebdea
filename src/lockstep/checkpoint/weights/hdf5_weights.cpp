#include <lockstep/checkpoint/weights/hdf5_weights.hpp>

#include <algorithm>
#include <array>
#include <exception>
#include <string>
#include <utility>
#include <vector>

#include <hdf5.h>

#include <lockstep/base/error.hpp>
#include <lockstep/io/hdf5_elements.hpp>
#include <lockstep/io/hdf5_file.hpp>

namespace lockstep {
namespace {

struct Element {
  DType dtype;
  hid_t in_memory;
};

Element element_of(hid_t stored) {
  const auto bytes = H5Tget_size(stored);
  switch (H5Tget_class(stored)) {
    case H5T_FLOAT:
      if (bytes == 4) return {DType::f32, H5T_NATIVE_FLOAT};
      return {DType::f64, H5T_NATIVE_DOUBLE};
    case H5T_INTEGER:
      if (bytes == 1 && H5Tget_sign(stored) == H5T_SGN_NONE) return {DType::u8, H5T_NATIVE_UINT8};
      if (bytes == 4 && H5Tget_sign(stored) != H5T_SGN_NONE) return {DType::i32, H5T_NATIVE_INT32};
      return {DType::i64, H5T_NATIVE_INT64};
    default:
      throw Error("is not an array of numbers");
  }
}

Tensor read_array(const Hdf5Handle& file, hid_t dataset, const std::filesystem::path& path) {
  expect_elements(file, dataset, path, ExternalElements::refused);
  const Hdf5Handle stored(H5Dget_type(dataset), H5Tclose, "look at its type");
  const Element element = element_of(stored.id());
  const Hdf5Handle space(H5Dget_space(dataset), H5Sclose, "look at its shape");
  const int dims = H5Sget_simple_extent_ndims(space.id());
  if (dims < 0 || dims > Shape::max_dims) throw Error("has more dimensions than a tensor can have");
  std::array<hsize_t, static_cast<std::size_t>(Shape::max_dims)> extents{};
  hdf5_check(H5Sget_simple_extent_dims(space.id(), extents.data(), nullptr), "look at its shape");
  const std::vector<std::int64_t> sizes(extents.begin(), extents.begin() + dims);
  Tensor tensor = Tensor::empty(Shape(std::span(sizes)), element.dtype);
  if (tensor.numel() > 0) {
    hdf5_check(H5Dread(dataset, element.in_memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, tensor.data()),
               "read it");
  }
  return tensor;
}

struct Visit {
  const Hdf5Handle& file;
  const std::filesystem::path& path;
  StateDict tensors = {};
  std::exception_ptr failure = {};
};

/// No exception may pass through HDF5.
herr_t visit(hid_t object, const char* name, const H5O_info_t* info, void* data) {
  auto& visit = *static_cast<Visit*>(data);
  if (info->type != H5O_TYPE_DATASET) return 0;
  try {
    const Hdf5Handle dataset(H5Dopen2(object, name, H5P_DEFAULT), H5Dclose, "open it");
    std::string dotted = name;
    std::ranges::replace(dotted, '/', '.');
    visit.tensors.insert(std::move(dotted), read_array(visit.file, dataset.id(), visit.path));
    return 0;
  } catch (const std::exception& error) {
    visit.failure = std::make_exception_ptr(Error(std::string("/") + name + " " + error.what()));
    return -1;
  }
}

}  // namespace

StateDict read_hdf5_weights(const std::filesystem::path& path) {
  const Hdf5Lock lock;
  try {
    const Hdf5Handle file = open_hdf5_for_reading(path);
    Visit all{.file = file, .path = path};
    const auto visited =
        H5Ovisit2(file.id(), H5_INDEX_NAME, H5_ITER_NATIVE, &visit, &all, H5O_INFO_BASIC);
    if (all.failure) std::rethrow_exception(all.failure);
    hdf5_check(visited, "list what is in it");
    return std::move(all.tensors);
  } catch (const std::exception& error) {
    throw CheckpointError("weights of " + path.string() + ": " + error.what());
  }
}

}  // namespace lockstep
