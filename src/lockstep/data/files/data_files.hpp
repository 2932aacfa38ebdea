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

/// The files named by these paths; patterns ("run/part-*.h5") are replaced by their matches, sorted
/// by name. Throws InputError for a pattern without a match, and for a file that occurs twice.
[[nodiscard]] std::vector<std::filesystem::path> files_of(const std::vector<std::string>& paths);

/// Throws InputError if a file is in both lists: it would be tested on what it was trained with.
void expect_no_common_file(const std::vector<std::filesystem::path>& train,
                           const std::vector<std::filesystem::path>& test);

/// The key `test_path`.
void declare_test_path(DeckTable& table, std::vector<std::string>& test_path);

/// Whether the file's name marks a table: .csv, .tsv or .txt, in any case, or one of these with
/// .gz.
[[nodiscard]] bool is_table(const std::filesystem::path& file);

/// An array in one file, by the ending of the file's name: .npy; or a table, whose feature columns
/// the options name (all if they name none); else data set `name` of an HDF5 file. Throws
/// InputError.
[[nodiscard]] std::shared_ptr<const StoredArray> open_array(const std::filesystem::path& file,
                                                            const std::string& name,
                                                            const FileOptions& options);

/// The samples of one half in files of any kind: hdf5, npy or csv.
class DataFiles {
 public:
  /// Throws InputError if a file is missing or unfit, or data.path names none.
  DataFiles(const DataOptions& options, Split split);

  /// `options`, with open settings filled in from a table: its columns and, for classes, whether
  /// the targets are names, and the names. The choice then holds for every table read with these
  /// options. Throws InputError if no column is left for features, and as CsvTable::labels does.
  [[nodiscard]] DataOptions completed(DataOptions options, TargetKind kind) const;

  /// These take completed options. They throw InputError if the arrays do not exist.
  [[nodiscard]] std::shared_ptr<const StoredArray> features(const DataOptions& options) const;
  [[nodiscard]] std::shared_ptr<const StoredArray> targets(const DataOptions& options) const;
  /// One per name in its other_features.
  [[nodiscard]] std::vector<std::shared_ptr<const StoredArray>> others(
      const DataOptions& options) const;
  /// Its sample_weights, [N].
  [[nodiscard]] std::shared_ptr<const StoredArray> weights(const DataOptions& options) const;

  [[nodiscard]] const std::vector<std::filesystem::path>& files() const noexcept { return files_; }

 private:
  [[nodiscard]] std::shared_ptr<const StoredArray> array(const std::string& name,
                                                         std::int64_t cache_bytes) const;
  /// Whether a table's targets are names of classes: they are not numbers, or some of
  /// data.class_names are numbers. "1" cannot be a name in one table and a number in another.
  [[nodiscard]] bool targets_are_names(const DataOptions& options) const;

  bool npy_;
  Split split_;
  ExternalElements external_;
  std::vector<std::filesystem::path> files_;
  std::optional<CsvTable> table_;
};

}  // namespace lockstep
