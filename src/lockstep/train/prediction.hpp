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

// A trained network and files: what `lockstep predict` and `lockstep evaluate` do. Both are
// collective and throw AgreedError.

namespace lockstep::train {

/// A data set of an HDF5 file: "x.h5:train/features"; or an input in x.npy, x.csv or a folder of
/// images.
struct DataSetName {
  std::filesystem::path file;
  std::string name;
  FileOptions options = {};  ///< how it is read: a table's columns are the model's inputs
  std::optional<ImageOptions> images = {};  ///< how the images of a folder are

  /// What is behind the last colon of `text` is the name; `otherwise` where there is no colon,
  /// `text` is a file as it stands, or the colon is in the name of its folder, "10:30/y.h5", which
  /// is there.
  [[nodiscard]] static DataSetName parse(const std::string& text, const std::string& otherwise);
};

/// Calls `part`, which is collective, with the checkpoint that stands for a run folder, its newest
/// good one, or for a file: on every rank the same. Where the run, which is alive, removes that one
/// before `part` has read it, and so `part` fails, a warning says so, and the next newest is taken.
/// Returns which it was.
std::filesystem::path with_checkpoint(
    ProcessGroup& group, const std::filesystem::path& checkpoint_or_run,
    const std::function<void(const std::filesystem::path&)>& part);

/// How the data that a checkpoint's model was trained by were read.
[[nodiscard]] FileOptions file_options_of(const std::filesystem::path& checkpoint);

/// The same where it was a folder of images; otherwise throws InputError.
[[nodiscard]] ImageOptions image_options_of(const std::filesystem::path& checkpoint);

/// Predicts each sample of `input` [N, ...], of the model's shape or flat, into `output` [N, ...],
/// a new file that appears whole and replaces one of that name: values, or probabilities of classes
/// and, in <name>_class, i64 [N] the most probable. Ranks take runs of neighbours, a MiB at a time,
/// so that N may be larger than memory; the file has the same bits for any number of ranks.
/// Predictions that are not finite stay in the file as they are, and their class is -1.
struct FilePrediction {
  std::int64_t samples = 0;            ///< N
  std::int64_t not_finite = 0;         ///< samples with a prediction that is not finite
  std::int64_t first_not_finite = -1;  ///< the first of these; -1: none
};
FilePrediction predict_file(ProcessGroup& group, const Predictor& predictor,
                            const DataSetName& input, const DataSetName& output);

/// Loss and metrics of a checkpoint of classify, regress or gpt on the test set of its deck; with
/// `data` not empty that of another file or folder, all of it; with `overrides` of that deck, which
/// may not give the model's inputs and outputs another meaning. A loss that is not finite is a
/// warning.
struct CheckpointEvaluation {
  std::filesystem::path checkpoint;  ///< which it was
  Evaluation figures;
  std::int64_t samples = 0;
  std::optional<Confusion> confusion;  ///< of up to WithConfusion::most_classes classes
  std::vector<std::string> class_names;
};
[[nodiscard]] CheckpointEvaluation evaluate_checkpoint(
    const std::shared_ptr<ProcessGroup>& group, const std::filesystem::path& checkpoint_or_run,
    const std::string& data, const std::vector<std::string>& overrides);

}  // namespace lockstep::train
