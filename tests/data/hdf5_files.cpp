#include <data/hdf5_files.hpp>

#include <hdf5.h>

#include <lockstep/data/files/hdf5_array.hpp>
#include <stdexcept>
#include <type_traits>

namespace lockstep::test {
namespace {

namespace fs = std::filesystem;

template <class T>
hid_t native_type() {
  if constexpr (std::is_same_v<T, float>) return H5T_NATIVE_FLOAT;
  if constexpr (std::is_same_v<T, double>) return H5T_NATIVE_DOUBLE;
  if constexpr (std::is_same_v<T, std::uint8_t>) return H5T_NATIVE_UINT8;
  if constexpr (std::is_same_v<T, std::int16_t>) return H5T_NATIVE_INT16;
  if constexpr (std::is_same_v<T, std::int32_t>) return H5T_NATIVE_INT32;
  return H5T_NATIVE_INT64;
}

void check(herr_t status) {
  if (status < 0) throw std::runtime_error("the test could not write its HDF5 file");
}

hid_t open_or_make(const fs::path& file) {
  return fs::exists(file) ? H5Fopen(file.c_str(), H5F_ACC_RDWR, H5P_DEFAULT)
                          : H5Fcreate(file.c_str(), H5F_ACC_EXCL, H5P_DEFAULT, H5P_DEFAULT);
}

}  // namespace

template <class T>
void write_hdf5(const fs::path& path, const std::string& name,
                const std::vector<std::int64_t>& extents, const std::vector<T>& values,
                const Hdf5Layout& layout) {
  const hid_t file = open_or_make(path);
  const hid_t links = H5Pcreate(H5P_LINK_CREATE), creation = H5Pcreate(H5P_DATASET_CREATE);
  check(H5Pset_create_intermediate_group(links, 1));
  if (!layout.chunk.empty()) {
    const std::vector<hsize_t> chunk(layout.chunk.begin(), layout.chunk.end());
    check(H5Pset_chunk(creation, static_cast<int>(chunk.size()), chunk.data()));
    if (layout.compressed) {
      check(H5Pset_shuffle(creation));
      check(H5Pset_deflate(creation, 4));
    }
  }
  const std::vector<hsize_t> size(extents.begin(), extents.end());
  const hid_t space = H5Screate_simple(static_cast<int>(size.size()), size.data(), nullptr);
  const hid_t type = H5Tcopy(native_type<T>());
  if (layout.big_endian) check(H5Tset_order(type, H5T_ORDER_BE));
  const hid_t data = H5Dcreate2(file, name.c_str(), type, space, links, creation, H5P_DEFAULT);
  check(H5Dwrite(data, native_type<T>(), H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()));
  H5Dclose(data);
  H5Tclose(type);
  H5Sclose(space);
  H5Pclose(creation);
  H5Pclose(links);
  check(H5Fclose(file));
}

template void write_hdf5(const fs::path&, const std::string&, const std::vector<std::int64_t>&,
                         const std::vector<float>&, const Hdf5Layout&);
template void write_hdf5(const fs::path&, const std::string&, const std::vector<std::int64_t>&,
                         const std::vector<double>&, const Hdf5Layout&);
template void write_hdf5(const fs::path&, const std::string&, const std::vector<std::int64_t>&,
                         const std::vector<std::uint8_t>&, const Hdf5Layout&);
template void write_hdf5(const fs::path&, const std::string&, const std::vector<std::int64_t>&,
                         const std::vector<std::int16_t>&, const Hdf5Layout&);
template void write_hdf5(const fs::path&, const std::string&, const std::vector<std::int64_t>&,
                         const std::vector<std::int32_t>&, const Hdf5Layout&);
template void write_hdf5(const fs::path&, const std::string&, const std::vector<std::int64_t>&,
                         const std::vector<std::int64_t>&, const Hdf5Layout&);

namespace {

void make_data_set(const fs::path& path, const std::string& name,
                   const std::vector<std::int64_t>& extents, hid_t creation) {
  const hid_t file = open_or_make(path);
  const std::vector<hsize_t> size(extents.begin(), extents.end());
  const hid_t space = H5Screate_simple(static_cast<int>(size.size()), size.data(), nullptr);
  H5Dclose(
      H5Dcreate2(file, name.c_str(), H5T_NATIVE_FLOAT, space, H5P_DEFAULT, creation, H5P_DEFAULT));
  H5Sclose(space);
  H5Pclose(creation);
  check(H5Fclose(file));
}

}  // namespace

void write_empty_hdf5(const fs::path& path, const std::string& name,
                      const std::vector<std::int64_t>& extents,
                      const std::vector<std::int64_t>& chunk) {
  const hid_t creation = H5Pcreate(H5P_DATASET_CREATE);
  const std::vector<hsize_t> piece(chunk.begin(), chunk.end());
  check(H5Pset_chunk(creation, static_cast<int>(piece.size()), piece.data()));
  make_data_set(path, name, extents, creation);
}

void write_sparse_hdf5(const fs::path& path, const std::string& name,
                       const std::vector<std::int64_t>& extents) {
  const hid_t creation = H5Pcreate(H5P_DATASET_CREATE);
  check(H5Pset_alloc_time(creation, H5D_ALLOC_TIME_EARLY));
  check(H5Pset_fill_time(creation, H5D_FILL_TIME_NEVER));
  make_data_set(path, name, extents, creation);
}

void write_hdf5_attribute(const fs::path& path, const std::string& data_set,
                          const std::string& name, double value) {
  const hid_t file = open_or_make(path);
  const hid_t data = H5Dopen2(file, data_set.c_str(), H5P_DEFAULT);
  const hid_t space = H5Screate(H5S_SCALAR);
  const hid_t attribute =
      H5Acreate2(data, name.c_str(), H5T_NATIVE_DOUBLE, space, H5P_DEFAULT, H5P_DEFAULT);
  check(H5Awrite(attribute, H5T_NATIVE_DOUBLE, &value));
  H5Aclose(attribute);
  H5Sclose(space);
  H5Dclose(data);
  check(H5Fclose(file));
}

void write_hdf5_text(const fs::path& path, const std::string& name, const std::string& text) {
  const hid_t file = open_or_make(path);
  const hid_t type = H5Tcopy(H5T_C_S1);
  check(H5Tset_size(type, text.size()));
  const hsize_t one = 1;
  const hid_t space = H5Screate_simple(1, &one, nullptr);
  const hid_t data =
      H5Dcreate2(file, name.c_str(), type, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  check(H5Dwrite(data, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, text.data()));
  H5Dclose(data);
  H5Sclose(space);
  H5Tclose(type);
  check(H5Fclose(file));
}

StoredSamples open_samples(const fs::path& file, const std::string& features,
                           const std::string& targets, TargetKind kind) {
  return pair_samples(std::make_shared<const Hdf5Array>(file, features),
                      std::make_shared<const Hdf5Array>(file, targets), kind, 0);
}

}  // namespace lockstep::test
