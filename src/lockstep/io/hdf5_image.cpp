#include <lockstep/io/hdf5_image.hpp>

#include <hdf5.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <exception>
#include <new>

#include <lockstep/io/hdf5_driver.hpp>

namespace lockstep {
namespace {

/// HDF5's record of an open file; the base comes first, as HDF5 requires.
struct OpenImage {
  H5FD_t base;
  Hdf5Image* image;
};

Hdf5Image& image_of(const H5FD_t* file) { return *reinterpret_cast<const OpenImage*>(file)->image; }

H5FD_t* open_image(const char*, unsigned, hid_t access, haddr_t) {
  const void* info = H5Pget_driver_info(access);
  if (!info) return nullptr;
  auto* file = new (std::nothrow) OpenImage{};
  if (!file) return nullptr;
  // The driver's info is the pointer itself. NOLINTNEXTLINE(bugprone-sizeof-expression)
  std::memcpy(&file->image, info, sizeof file->image);
  return &file->base;
}

herr_t close_image(H5FD_t* file) {
  delete reinterpret_cast<OpenImage*>(file);
  return 0;
}

/// The same choices about space as the driver for real files, so the same layout.
herr_t query_image(const H5FD_t*, unsigned long* flags) {
  *flags = H5FD_FEAT_AGGREGATE_METADATA | H5FD_FEAT_ACCUMULATE_METADATA | H5FD_FEAT_DATA_SIEVE |
           H5FD_FEAT_AGGREGATE_SMALLDATA | H5FD_FEAT_DEFAULT_VFD_COMPATIBLE;
  return 0;
}

haddr_t get_size(const H5FD_t* file, H5FD_mem_t) {
  return static_cast<haddr_t>(image_of(file).size());
}

herr_t set_size(H5FD_t* file, H5FD_mem_t, haddr_t bytes) {
  image_of(file).resize(static_cast<std::int64_t>(bytes));
  return 0;
}

herr_t read_image(H5FD_t* file, H5FD_mem_t, hid_t, haddr_t offset, std::size_t bytes,
                  void* target) {
  image_of(file).read_at(static_cast<std::int64_t>(offset), target,
                         static_cast<std::int64_t>(bytes));
  return 0;
}

herr_t write_image(H5FD_t* file, H5FD_mem_t kind, hid_t, haddr_t offset, std::size_t bytes,
                   const void* source) {
  const auto write = kind == H5FD_MEM_DRAW ? &Hdf5Image::write_elements_at : &Hdf5Image::write_at;
  try {
    (image_of(file).*write)(static_cast<std::int64_t>(offset), source,
                            static_cast<std::int64_t>(bytes));
    return 0;
  } catch (const std::exception&) {
    return -1;
  }
}

H5FD_class_t make_driver() {
  H5FD_class_t driver = private_hdf5_driver("lockstep-image", 0, H5F_CLOSE_STRONG);
  driver.fapl_size = sizeof(Hdf5Image*);  // NOLINT(bugprone-sizeof-expression): as above
  driver.open = open_image;
  driver.close = close_image;
  driver.query = query_image;
  driver.get_eoa = get_size;
  driver.set_eoa = set_size;
  driver.get_eof = get_size;
  driver.read = read_image;
  driver.write = write_image;
  return driver;
}

}  // namespace

Hdf5Handle Hdf5Image::create(const Hdf5Handle& creation, const Hdf5Handle& access) {
  static const H5FD_class_t driver = make_driver();
  Hdf5Image* const self = this;
  use_driver(access, driver, &self);
  return {H5Fcreate("image", H5F_ACC_TRUNC, creation.id(), access.id()), H5Fclose,
          "lay out a file in memory"};
}

void Hdf5Image::read_at(std::int64_t offset, void* target, std::int64_t bytes) const noexcept {
  auto* to = static_cast<char*>(target);
  while (bytes > 0) {
    const std::int64_t within = offset % page_bytes;
    const auto count = static_cast<std::size_t>(std::min(bytes, page_bytes - within));
    const auto page = pages_.find(offset / page_bytes);
    if (page == pages_.end()) {
      std::memset(to, 0, count);
    } else {
      std::memcpy(to, page->second.data() + within, count);
    }
    to += count;
    offset += static_cast<std::int64_t>(count);
    bytes -= static_cast<std::int64_t>(count);
  }
}

void Hdf5Image::write_at(std::int64_t offset, const void* source, std::int64_t bytes) {
  const auto* from = static_cast<const char*>(source);
  while (bytes > 0) {
    const std::int64_t within = offset % page_bytes;
    const auto count = static_cast<std::size_t>(std::min(bytes, page_bytes - within));
    Page& page = pages_.try_emplace(offset / page_bytes, Page{}).first->second;
    std::memcpy(page.data() + within, from, count);
    from += count;
    offset += static_cast<std::int64_t>(count);
    bytes -= static_cast<std::int64_t>(count);
  }
}

void Hdf5Image::write_elements_at(std::int64_t offset, const void* source, std::int64_t bytes) {
  last_elements_ = {offset, bytes};
  if (elements_ == Elements::kept) write_at(offset, source, bytes);
}

}  // namespace lockstep
