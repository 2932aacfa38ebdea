#pragma once
#include <cstdint>
#include <filesystem>

#include <lockstep/base/error.hpp>
#include <lockstep/io/hdf5.hpp>

namespace lockstep {

/// Whether the elements of a data set may be stored in files other than the opened one.
enum class ExternalElements : std::uint8_t { refused, allowed };

/// They are, but may not be: "has its elements in another file, x.raw".
class ExternalElementsError : public Error {
 public:
  using Error::Error;
};

/// HDF5 silently reads a missing element as the fill value. It reads an element in another file (a
/// virtual data set, an external raw file, a link) from whatever has that file's name, even a pipe
/// or a device. So this checks first. Throws Error, "has 3 of 8 chunks: the others were never
/// written", unless every element of `dataset`, opened from `file`, is stored, or its fill value
/// was set and stands for at most a GiB. The elements must be in `file` itself (else
/// ExternalElementsError) or, if allowed, in existing regular files that hold them. Takes as long
/// as counting the chunks. Under Hdf5Lock.
void expect_elements(const Hdf5Handle& file, Hdf5Id dataset, const std::filesystem::path& path,
                     ExternalElements external);

/// Whether an object opened from `file` is stored in another one. Under Hdf5Lock.
[[nodiscard]] bool is_in_other_file(const Hdf5Handle& file, Hdf5Id object);

/// Whether the type is numpy's bool as h5py writes it, and checkpoints: an enumeration of bytes,
/// FALSE = 0, TRUE = 1. Under Hdf5Lock.
[[nodiscard]] bool is_boolean(Hdf5Id type);

}  // namespace lockstep
