#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include <lockstep/data/dataset.hpp>
#include <lockstep/data/files/csv_table.hpp>

namespace lockstep {

class DeckTable;
struct DataOptions;

/// Columns of a table.
struct Columns {
  std::vector<std::string> features;  ///< empty: all columns that are not targets
  std::vector<std::string> targets;   ///< empty: the last column
};

/// Places of the data in files, and how they are read.
struct FileOptions {
  /// hdf5: data sets; npy: files train/features.npy, ... in the folder.
  std::string train_features = "train/features", train_targets = "train/targets";
  std::string test_features = "test/features", test_targets = "test/targets";
  /// Further inputs of a sample, beside train_features and test_features: "mask" is train/mask.
  std::vector<std::string> other_features;
  std::vector<std::string> test_path;  ///< files of the test set; empty: the training set's
  /// Samples are drawn with replacement by the weights in this array [N].
  std::string sample_weights;
  CsvHeader header = CsvHeader::automatic;
  Columns columns;             ///< csv only
  bool named_targets = false;  ///< csv: targets are class_names (DataFiles::completed)
  std::int64_t classes = 0;    ///< 0: the largest label of the training set plus 1
  bool indices = false;        ///< features are integers for an Embedding, passed on unscaled
  /// hdf5: elements may be stored in other files: virtual data sets, external raw files and links.
  bool allow_external = false;
  bool stream = false;  ///< read samples when a batch needs them, instead of all at the start
  std::int64_t cache_mib = 64;  ///< cache of decoded chunks, per data set
};

/// Data in files of numbers. DataOptions::files() are their options.
enum class FileFormat : std::uint8_t { hdf5, npy, csv };
/// Data sets in files of one format: the data kinds hdf5, npy and csv.
template <FileFormat format>
struct StoredData {
  FileOptions files;

  [[nodiscard]] static Datasets make(const DataOptions& all, TargetKind kind, Sets wanted);
  [[nodiscard]] static TargetKind targets(const DataOptions& all);
  void note(const Datasets& found);
};
using Hdf5Options = StoredData<FileFormat::hdf5>;
using NpyOptions = StoredData<FileFormat::npy>;
using CsvOptions = StoredData<FileFormat::csv>;
void declare(DeckTable& table, Hdf5Options& options);
void declare(DeckTable& table, NpyOptions& options);
void declare(DeckTable& table, CsvOptions& options);

}  // namespace lockstep
