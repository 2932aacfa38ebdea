#include <lockstep/train/report/library_versions.hpp>

#include <H5public.h>
#include <fmt/format.h>
#include <mpi.h>

#include <array>

#include <lockstep/io/hdf5.hpp>
#include <lockstep/tensor/math_libraries.hpp>

namespace lockstep::train {

std::vector<std::pair<std::string, std::string>> library_versions() {
  auto versions = math_library_versions();
  unsigned major = 0, minor = 0, release = 0;
  {
    const Hdf5Lock lock;
    H5get_libversion(&major, &minor, &release);
  }
  versions.emplace_back("HDF5", fmt::format("{}.{}.{}", major, minor, release));
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  MPI_Get_library_version(text.data(), &length);
  const std::string mpi(text.data(), static_cast<std::size_t>(length));
  versions.emplace_back("MPI", mpi.substr(0, mpi.find('\n')));
  for (auto& [name, value] : versions) {
    for (char& c : value) c = c == '\t' ? ' ' : c;
  }
  return versions;
}

}  // namespace lockstep::train
