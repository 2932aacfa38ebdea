#pragma once
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <lockstep/data/data_options.hpp>
#include <lockstep/data/files/csv_table.hpp>
#include <lockstep/data/files/hdf5_array.hpp>
#include <lockstep/data/files/stored_array.hpp>
#include <lockstep/data/files/stored_samples.hpp>

namespace lockstep {

/// The files that these paths name, patterns ("run/part-*.h5") replaced by what they fit, in the
/// order of their names. Throws InputError for a pattern that fits nothing.
[[nodiscard]] std::vector<std::filesystem::path> files_of(const std::vector<std::string>& paths);

/// The key `test_path`.
void declare_test_path(DeckTable& table, std::vector<std::string>& test_path);

/// Whether the file's name says that it is a table: .csv or .csv.gz.
[[nodiscard]] bool is_table(const std::filesystem::path& file);

/// An array in one file, by what the file's name ends with: .npy, or a table, of whose columns the
/// options name the features, or all where they name none; else data set `name` of an HDF5 file.
/// Throws InputError.
[[nodiscard]] std::shared_ptr<const StoredArray> open_array(const std::filesystem::path& file,
                                                            const std::string& name,
                                                            const FileOptions& options);

/// The samples of one half in files, whatever their kind: hdf5, npy or csv.
class DataFiles {
 public:
  /// Throws InputError if a file is missing or unfit, or data.path names none.
  DataFiles(const DataOptions& options, Split split);

  /// `options` with what they leave to a table: its columns and, where classes are wanted, whether
  /// the targets are names, which then holds for every table that is read with them, and the names.
  /// Throws InputError if no column is left for features, and as CsvTable::labels does.
  [[nodiscard]] DataOptions completed(DataOptions options, TargetKind kind) const;

  /// Of completed options. Throws InputError if they are not there.
  [[nodiscard]] std::shared_ptr<const StoredArray> features(const DataOptions& options) const;
  [[nodiscard]] std::shared_ptr<const StoredArray> targets(const DataOptions& options) const;
  /// Each of its other_features.
  [[nodiscard]] std::vector<std::shared_ptr<const StoredArray>> others(
      const DataOptions& options) const;
  /// Its sample_weights, [N].
  [[nodiscard]] std::shared_ptr<const StoredArray> weights(const DataOptions& options) const;

 private:
  [[nodiscard]] std::shared_ptr<const StoredArray> array(const std::string& name,
                                                         std::int64_t cache_bytes) const;
  /// Whether a table's targets are names of classes: they are no numbers, or some of
  /// data.class_names are numbers. "1" cannot be a name in one table and a number in another.
  [[nodiscard]] bool targets_are_names(const DataOptions& options) const;

  bool npy_;
  Split split_;
  ExternalElements external_;
  std::vector<std::filesystem::path> files_;
  std::optional<CsvTable> table_;
};

}  // namespace lockstep
