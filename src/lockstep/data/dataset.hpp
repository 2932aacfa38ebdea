#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <lockstep/tensor/tensor.hpp>

namespace lockstep {

class Dataset;
class Stream;

/// Room for up to `capacity` samples of a data set, allocated once and refilled again and again.
/// Tensors taken from it are views: they show the next samples after the next refill.
class Batch {
 public:
  Batch() = default;
  Batch(const Dataset& dataset, std::int64_t capacity, Device device = {});
  /// In pinned host memory, from which devices of this type copy asynchronously.
  [[nodiscard]] static Batch pinned(const Dataset& dataset, std::int64_t capacity, DeviceType type);

  /// Number of samples in the batch; 0 is legal (a rank without data).
  [[nodiscard]] std::int64_t size() const noexcept { return size_; }
  [[nodiscard]] std::int64_t capacity() const noexcept;
  /// f32 or i64 (Dataset::input_dtype) [size, ...sample shape].
  [[nodiscard]] const Tensor& inputs() const noexcept { return inputs_; }
  /// For samples of several inputs (StackedDataset): input number k; 0 is inputs(). Throws
  /// std::out_of_range.
  [[nodiscard]] const Tensor& inputs(std::size_t k) const {
    return k == 0 ? inputs_ : others_.at(k - 1).inputs_;
  }
  /// i64 [size], the class of each sample, or f32 [size, ...target shape], its values.
  [[nodiscard]] const Tensor& targets() const noexcept { return targets_; }
  /// i64 [size]: numbers of the samples in the data set.
  [[nodiscard]] const Tensor& indices() const noexcept { return indices_; }

  /// Sizes the batch for exactly these samples and stores their indices; the data set then fills
  /// inputs and targets. Allocates nothing. Throws ShapeError if there are more than capacity().
  void reset(std::span<const std::int64_t> indices);
  /// Copies the samples of a batch of the same data set, from any device, on this thread's current
  /// stream. The host does not wait for pinned ones; they must stay unchanged until the stream has
  /// copied them. Allocates nothing. Throws ShapeError as reset() does.
  void copy_from(const Batch& other);
  /// Declares that a stream uses the batch's memory, see Tensor::record_stream.
  void record_stream(const Stream& stream) const;

  /// Samples [begin, end) of this batch, as a view into it.
  [[nodiscard]] Batch slice(std::int64_t begin, std::int64_t end) const;
  /// For data sets to fill: the values of Dataset::others()[k] for these samples.
  [[nodiscard]] Batch& other(std::size_t k) { return others_.at(k); }
  /// A separate batch with the same samples; inputs and targets are converted to `dtype`, except
  /// integers.
  [[nodiscard]] Batch to(DType dtype) const;
  /// A separate batch with the same samples, with `f` of inputs and of targets in their place. Not
  /// for samples of several inputs.
  [[nodiscard]] Batch mapped(const std::function<Tensor(const Tensor&)>& f) const;

 private:
  void make_room(std::int64_t samples);
  void pin(DeviceType type);

  Tensor all_inputs_, all_targets_, all_indices_;
  Tensor inputs_, targets_, indices_;
  std::vector<Batch> others_;
  std::int64_t size_ = 0;
};

/// Samples with numbers 0 to size()-1, each with its target: a class, or values. Immutable: any
/// thread may load at any time.
class Dataset {
 public:
  virtual ~Dataset() = default;
  [[nodiscard]] virtual std::int64_t size() const noexcept = 0;
  /// Shape of one sample, e.g. [1, 28, 28].
  [[nodiscard]] virtual Shape sample_shape() const = 0;
  /// f32, or i64 for integer samples: indices that a model looks up (nn::Embedding).
  [[nodiscard]] virtual DType input_dtype() const noexcept { return DType::f32; }
  /// Data sets of the same size with a sample's further inputs, under the same number.
  [[nodiscard]] virtual std::span<const std::shared_ptr<const Dataset>> others() const noexcept {
    return {};
  }
  /// Targets are in [0, classes()); 0 if they are values.
  [[nodiscard]] virtual std::int64_t classes() const noexcept = 0;
  /// i64 for classes, f32 for values.
  [[nodiscard]] DType target_dtype() const noexcept {
    return classes() > 0 ? DType::i64 : DType::f32;
  }
  /// Shape of one target: [] for a class or a single value.
  [[nodiscard]] virtual Shape target_shape() const { return {}; }

  /// Fills `batch` with the samples of these numbers, in this order. Must allocate nothing. A
  /// sample must have the same bits on every rank and thread. Throws Error for a number outside [0,
  /// size()).
  virtual void load(std::span<const std::int64_t> indices, Batch& batch) const = 0;
  /// The same for training in `epoch`: where a data set varies its samples, as a function of the
  /// epoch and a sample's number alone.
  virtual void load_varied(std::span<const std::int64_t> indices, std::int64_t /*epoch*/,
                           Batch& batch) const {
    load(indices, batch);
  }

  /// The class of every sample, [size()], for data with classes. By default loads all samples.
  [[nodiscard]] virtual std::vector<std::int64_t> labels() const;
};

/// The two halves of a data set.
enum class Split { train, test };

/// Kind of prediction asked of a model.
enum class TargetKind { classes, values, tokens };

/// Data sets to load: both, or the test set alone. Without the training set (null) the options must
/// be those stored by a run, in which nothing remains to be measured.
enum class Sets : std::uint8_t { train_and_test, test };

/// Changes batches in place after loading: a step of an augmentation. Its effect on a sample is a
/// function of the epoch and the sample's number alone, so it does not depend on rank or thread.
/// Immutable: any thread may apply it at any time. Allocates nothing.
class BatchTransform {
 public:
  virtual ~BatchTransform() = default;
  virtual void apply(const Batch& batch, std::int64_t epoch) const = 0;
};
using BatchTransforms = std::vector<std::shared_ptr<const BatchTransform>>;

/// Given or measured facts about the data that predictions from raw samples need as well.
struct DataFacts {
  std::string input = "image", target = "class";  ///< names of a sample's tensors
  std::vector<std::string> other_inputs = {};     ///< names of Dataset::others(), or none
  double divisor = 1;                             ///< 255 for samples stored as bytes
  /// Of inputs and of targets, one for all or one per channel; empty: not normalised.
  std::vector<double> mean = {}, std = {}, target_mean = {}, target_std = {};
  std::vector<std::string> class_names = {};  ///< one per class, or none; characters of tokens
  std::string tokenizer = {};                 ///< TokenizerChoice::kind
  std::vector<std::string> feature_columns = {}, target_columns = {};  ///< columns of a table
  std::string listing = {};  ///< hash of the training set's file names: ImageFolder
};

/// Data for training and evaluation: samples and targets of one shape, and the same classes.
struct Datasets {
  std::shared_ptr<const Dataset> train;
  std::shared_ptr<const Dataset> test;  ///< may be null, as the next
  BatchTransforms augmentation;         ///< applied to training batches, in order
  DataFacts facts = {};
  /// Held back from the training set; evaluated after each epoch.
  std::shared_ptr<const Dataset> validation = {};
  /// Relative frequency of each training sample; empty: each once per epoch.
  std::vector<double> sample_weights = {};
};

}  // namespace lockstep
