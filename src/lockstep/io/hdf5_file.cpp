#include <lockstep/io/hdf5_file.hpp>

#include <hdf5.h>

#include <exception>
#include <memory>
#include <utility>

#include <lockstep/io/file.hpp>
#include <lockstep/io/hdf5_driver.hpp>

namespace lockstep {
namespace {

/// HDF5's record of an open file; the base comes first, as HDF5 requires.
struct OpenFile {
  H5FD_t base{};
  File file;
  std::int64_t bytes = 0;
  haddr_t end_of_allocated = 0;
};

OpenFile& as_open(H5FD_t* file) { return *reinterpret_cast<OpenFile*>(file); }
const OpenFile& as_open(const H5FD_t* file) { return *reinterpret_cast<const OpenFile*>(file); }

H5FD_t* open_file(const char* path, unsigned, hid_t, haddr_t) {
  try {
    auto opened = std::make_unique<OpenFile>();
    opened->file = File::open_for_reading(path);
    opened->bytes = opened->file.size();
    return &opened.release()->base;
  } catch (const std::exception&) {  // no exception may pass through HDF5
    return nullptr;
  }
}

herr_t close_file(H5FD_t* file) {
  delete &as_open(file);
  return 0;
}

/// Without H5FD_FEAT_ACCUMULATE_METADATA: HDF5 1.10 crashes in it.
herr_t query_file(const H5FD_t*, unsigned long* flags) {
  *flags = H5FD_FEAT_DATA_SIEVE | H5FD_FEAT_DEFAULT_VFD_COMPATIBLE;
  return 0;
}

haddr_t get_allocated(const H5FD_t* file, H5FD_mem_t) { return as_open(file).end_of_allocated; }

herr_t set_allocated(H5FD_t* file, H5FD_mem_t, haddr_t bytes) {
  as_open(file).end_of_allocated = bytes;
  return 0;
}

haddr_t get_end(const H5FD_t* file, H5FD_mem_t) {
  return static_cast<haddr_t>(as_open(file).bytes);
}

herr_t read_file(H5FD_t* file, H5FD_mem_t, hid_t, haddr_t offset, std::size_t bytes, void* target) {
  const OpenFile& opened = as_open(file);
  const auto end = static_cast<haddr_t>(opened.bytes);
  if (offset > end || bytes > end - offset) return -1;
  try {
    opened.file.read_at(static_cast<std::int64_t>(offset), target,
                        static_cast<std::int64_t>(bytes));
    return 0;
  } catch (const std::exception&) {
    return -1;
  }
}

herr_t write_nothing(H5FD_t*, H5FD_mem_t, hid_t, haddr_t, std::size_t, const void*) { return -1; }

H5FD_class_t make_reader() {
  H5FD_class_t driver = private_hdf5_driver("lockstep-file", 1, H5F_CLOSE_WEAK);
  driver.open = open_file;
  driver.close = close_file;
  driver.query = query_file;
  driver.get_eoa = get_allocated;
  driver.set_eoa = set_allocated;
  driver.get_eof = get_end;
  driver.read = read_file;
  driver.write = write_nothing;
  return driver;
}

}  // namespace

Hdf5Handle open_hdf5_for_reading(const std::filesystem::path& path) {
  static_cast<void>(File::open_for_reading(path));  // or a sentence with the reason
  static const H5FD_class_t driver = make_reader();
  const Hdf5Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose, "create a property list");
  use_driver(access, driver, nullptr);
  return {H5Fopen(path.c_str(), H5F_ACC_RDONLY, access.id()), H5Fclose, "open it"};
}

}  // namespace lockstep
