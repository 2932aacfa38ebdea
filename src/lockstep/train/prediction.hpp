#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <lockstep/data/data_options.hpp>
#include <lockstep/train/task/confusion.hpp>
#include <lockstep/train/task/outcome.hpp>

namespace lockstep {
class Predictor;
class ProcessGroup;
}  // namespace lockstep

// Prediction and evaluation with files, for `lockstep predict` and `lockstep evaluate`. Both are
// collective and throw AgreedError.

namespace lockstep::train {

/// A data set of an HDF5 file: "x.h5:train/features"; or an input in x.npy, x.csv or a folder of
/// images.
struct DataSetName {
  std::filesystem::path file;
  std::string name;
  FileOptions options = {};  ///< how to read it: a table's columns are the model's inputs
  std::optional<ImageOptions> images = {};  ///< how to read the images of a folder

  /// Splits `text` at its last colon into file and name. The name is `otherwise` if there is no
  /// colon, if `text` is an existing file, or if the colon belongs to an existing folder, as in
  /// "10:30/y.h5".
  [[nodiscard]] static DataSetName parse(const std::string& text, const std::string& otherwise);
};

/// Calls `part`, which is collective, with the newest good checkpoint of a run folder, or with a
/// file: the same on every rank. If a running job removes that checkpoint before `part` has read
/// it, so that `part` fails, logs a warning and takes the next newest. Returns the choice.
std::filesystem::path with_checkpoint(
    ProcessGroup& group, const std::filesystem::path& checkpoint_or_run,
    const std::function<void(const std::filesystem::path&)>& part);

/// How the training data of a checkpoint's model were read.
[[nodiscard]] FileOptions file_options_of(const std::filesystem::path& checkpoint);

/// How a checkpoint of a folder of images reads its images; throws InputError for other data.
[[nodiscard]] ImageOptions image_options_of(const std::filesystem::path& checkpoint);

/// Predicts each sample of `input` [N, ...], of the model's shape or flat, into `output` [N, ...].
/// The file is new, appears whole and replaces one of that name. It holds values, or probabilities
/// of classes and, in <name>_class, i64 [N] the most probable one. Ranks process contiguous parts,
/// a MiB at a time, so N may exceed memory; the file has the same bits for any number of ranks.
/// Predictions that are not finite are written unchanged, with class -1.
struct FilePrediction {
  std::int64_t samples = 0;            ///< N
  std::int64_t not_finite = 0;         ///< number of samples with a prediction that is not finite
  std::int64_t first_not_finite = -1;  ///< the first of these; -1: none
};
FilePrediction predict_file(ProcessGroup& group, const Predictor& predictor,
                            const DataSetName& input, const DataSetName& output);

/// Loss and metrics of a checkpoint of classify, regress or gpt on the test set of its deck. A
/// non-empty `data` names another file or folder, used completely. `overrides` change that deck,
/// but may not change the meaning of the model's inputs and outputs. A loss that is not finite
/// gives a warning.
struct CheckpointEvaluation {
  std::filesystem::path checkpoint;  ///< the checkpoint used
  Evaluation figures;
  std::int64_t samples = 0;
  std::optional<Confusion> confusion;  ///< for up to WithConfusion::most_classes classes
  std::vector<std::string> class_names;
};
[[nodiscard]] CheckpointEvaluation evaluate_checkpoint(
    const std::shared_ptr<ProcessGroup>& group, const std::filesystem::path& checkpoint_or_run,
    const std::string& data, const std::vector<std::string>& overrides);

}  // namespace lockstep::train
