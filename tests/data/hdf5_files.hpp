#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <lockstep/data/files/stored_samples.hpp>

namespace lockstep::test {

/// Layout of a data set.
struct Hdf5Layout {
  std::vector<std::int64_t> chunk = {};  ///< extents; empty: contiguous
  bool compressed = false;               ///< deflate, shuffled bytes
  bool big_endian = false;
};

/// Adds data set `name` ("train/features"; creates groups) to `file`, created if missing. T: float,
/// double, uint8_t, int16_t, int32_t, int64_t.
template <class T>
void write_hdf5(const std::filesystem::path& file, const std::string& name,
                const std::vector<std::int64_t>& extents, const std::vector<T>& values,
                const Hdf5Layout& layout = {});

/// A chunked data set of floats without written chunks: it takes no room in the file.
void write_empty_hdf5(const std::filesystem::path& file, const std::string& name,
                      const std::vector<std::int64_t>& extents,
                      const std::vector<std::int64_t>& chunk);

/// A contiguous data set of floats stored as a hole in the file, which takes no room.
void write_sparse_hdf5(const std::filesystem::path& file, const std::string& name,
                       const std::vector<std::int64_t>& extents);

/// Gives a data set of the file an attribute, a number.
void write_hdf5_attribute(const std::filesystem::path& file, const std::string& data_set,
                          const std::string& name, double value);

/// A data set of text.
void write_hdf5_text(const std::filesystem::path& file, const std::string& name,
                     const std::string& text);

/// Features and targets of a file, opened.
StoredSamples open_samples(const std::filesystem::path& file, const std::string& features,
                           const std::string& targets, TargetKind kind);

}  // namespace lockstep::test
