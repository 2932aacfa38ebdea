#pragma once
#include <cstdint>
#include <filesystem>

#include <lockstep/base/error.hpp>
#include <lockstep/io/hdf5.hpp>

namespace lockstep {

/// Whether the elements of a data set may stand in other files than the one that is opened.
enum class ExternalElements : std::uint8_t { refused, allowed };

/// They do, and may not: "has its elements in another file, x.raw".
class ExternalElementsError : public Error {
 public:
  using Error::Error;
};

/// HDF5 reads an element that is nowhere as the fill value, without a word, and one that stands in
/// another file (a virtual data set, an external raw file, a link to another file) from whatever
/// has that file's name, a pipe or a device as well. So, before anything is read: throws Error,
/// "has 3 of 8 chunks: the others were never written", unless every element of `dataset`, opened
/// from `file`, is stored, or its fill value was chosen and stands for a GiB at most; in `file`
/// itself (else ExternalElementsError), or, where that is
/// allowed, in regular files that are there and hold them. Takes as long as counting the chunks.
/// Under Hdf5Lock.
void expect_elements(const Hdf5Handle& file, Hdf5Id dataset, const std::filesystem::path& path,
                     ExternalElements external);

/// Whether an object that was opened from `file` stands in another one. Under Hdf5Lock.
[[nodiscard]] bool is_in_other_file(const Hdf5Handle& file, Hdf5Id object);

}  // namespace lockstep
