#include <lockstep/io/mapped_file.hpp>

#include <sys/mman.h>

#include <cerrno>
#include <utility>

#include <lockstep/io/file.hpp>

namespace lockstep {

MappedFile::MappedFile(const std::filesystem::path& path) : path_(path) {
  const File file = File::open_for_reading(path);
  const auto size = static_cast<std::size_t>(file.size());
  if (size == 0) return;  // nothing cannot be mapped
  void* const memory = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file.descriptor(), 0);
  if (memory == MAP_FAILED) throw FileError("map", path, errno);
  bytes_ = {static_cast<const std::byte*>(memory), size};
}

MappedFile::~MappedFile() {
  // munmap does not write; its parameter is not const for other uses.
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());  // NOLINT
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)), bytes_(std::exchange(other.bytes_, {})) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

}  // namespace lockstep
