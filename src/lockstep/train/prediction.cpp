#include <lockstep/train/prediction.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <optional>
#include <type_traits>

#include <lockstep/autograd/autocast.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/base/log.hpp>
#include <lockstep/checkpoint/file/checkpoint_file.hpp>
#include <lockstep/comm/objects.hpp>
#include <lockstep/data/files/data_files.hpp>
#include <lockstep/data/files/looked_for.hpp>
#include <lockstep/data/files/stored_samples.hpp>
#include <lockstep/data/images/image_array.hpp>
#include <lockstep/data/tensor_dataset.hpp>
#include <lockstep/deck/deck.hpp>
#include <lockstep/deck/key_text.hpp>
#include <lockstep/io/atomic_file.hpp>
#include <lockstep/predict/predictor.hpp>
#include <lockstep/tensor/layout_guard.hpp>
#include <lockstep/train/prediction_file.hpp>
#include <lockstep/train/run/failures.hpp>
#include <lockstep/train/run/run_plan.hpp>
#include <lockstep/train/task/classification.hpp>
#include <lockstep/train/task/evaluation.hpp>
#include <lockstep/train/task/language_model.hpp>
#include <lockstep/train/task/regression.hpp>
#include <lockstep/train/task/task_options.hpp>

namespace lockstep::train {
namespace {

namespace fs = std::filesystem;

/// Samples that are read, predicted and written together. A function of their size alone, so that
/// no bit depends on the ranks.
std::int64_t block_of(const Predictor& predictor) {
  constexpr std::int64_t bytes = std::int64_t{1} << 20U, most = 4096;
  const std::int64_t of_a_sample =
      8 * std::max(predictor.input_elements(), predictor.output_elements());
  return std::clamp<std::int64_t>(bytes / of_a_sample, 1, most);
}

/// Range [first, last) of `count` items for rank r of n: contiguous parts.
std::pair<std::int64_t, std::int64_t> share_of(std::int64_t count, const ProcessGroup& group) {
  const std::int64_t r = group.rank(), n = group.size();
  return {count * r / n, count * (r + 1) / n};
}

Shape with_samples(std::int64_t samples, const Shape& sample) {
  std::vector<std::int64_t> extents{samples};
  extents.insert(extents.end(), sample.begin(), sample.end());
  return Shape(std::span<const std::int64_t>(extents));
}

/// The extents of a sample without those of 1, which do not affect the order of its numbers.
std::vector<std::int64_t> extents_above_one(const Shape& sample) {
  std::vector<std::int64_t> extents;
  std::ranges::copy_if(sample, std::back_inserter(extents),
                       [](std::int64_t extent) { return extent != 1; });
  return extents;
}

/// Whether a sample's numbers are in the model's order: it has the model's shape, or is flat.
bool has_order_of(const Shape& sample, const Shape& wanted) {
  const auto given = extents_above_one(sample);
  return given == extents_above_one(wanted) || given == std::vector{wanted.numel()};
}

/// Throws unless `input` exists in `file`.
void expect_fits(const StoredArray& input, const fs::path& file, const Predictor& predictor) {
  const TensorSignature& wanted = predictor.signature().input;
  if (wanted.dtype == DType::i64 && !input.integers()) {
    throw InputError(
        fmt::format("{} must be integers: the model looks them up.", input.description()));
  }
  const Shape sample = sample_shape_of(input.shape());
  if (input.rows() == 0 || has_order_of(sample, wanted.shape)) return;
  const bool has_names = !is_table(file) && file.extension() != ".npy";
  throw InputError(fmt::format(
      "{} has samples {}, but the model takes {} {}. Store samples of that shape, or flat ones{}.",
      input.description(), to_string(sample), wanted.name, to_string(wanted.shape),
      has_names ? ", or name another data set: --input FILE:NAME" : ""));
}

/// Contents of the file: the predictions and, for classes, the most probable one; for values with
/// uncertainties also the standard deviations.
std::vector<PlannedArray> arrays_of(const Predictor& predictor, const std::string& name,
                                    std::int64_t samples) {
  const ModelSignature& signature = predictor.signature();
  std::vector<PlannedArray> arrays{{.name = name,
                                    .dtype = DType::f32,
                                    .shape = with_samples(samples, signature.output.shape),
                                    .class_names = signature.class_names}};
  if (signature.classes() > 0)
    arrays.push_back({.name = name + "_class", .dtype = DType::i64, .shape = {samples}});
  if (signature.kind == ModelSignature::Output::gaussian) {
    arrays.push_back({.name = name + "_std",
                      .dtype = DType::f32,
                      .shape = with_samples(samples, signature.output.shape)});
  }
  return arrays;
}

/// Column `part` of rows [parts, width].
std::vector<float> part_of_rows(std::span<const float> rows, std::int64_t width, std::int64_t parts,
                                std::int64_t part) {
  std::vector<float> found;
  found.reserve(rows.size() / static_cast<std::size_t>(parts));
  for (const float* row = rows.data(); row < rows.data() + rows.size(); row += parts * width)
    found.insert(found.end(), row + part * width, row + (part + 1) * width);
  return found;
}

bool is_finite_row(const float* row, std::int64_t width) {
  return std::all_of(row, row + width, [](float x) { return std::isfinite(x); });
}

/// Index of the largest element of each row; -1 for a row that is not finite.
std::vector<std::int64_t> largest_of_rows(std::span<const float> rows, std::int64_t width) {
  std::vector<std::int64_t> found;
  for (const float* row = rows.data(); row < rows.data() + rows.size(); row += width) {
    found.push_back(is_finite_row(row, width) ? std::max_element(row, row + width) - row : -1);
  }
  return found;
}

/// Counts rows of `width` that are not finite; the first row is sample number `begin`.
void count_not_finite(std::span<const float> rows, std::int64_t width, std::int64_t begin,
                      FilePrediction& counts) {
  std::int64_t sample = begin;
  for (const float* row = rows.data(); row < rows.data() + rows.size(); row += width, ++sample) {
    if (is_finite_row(row, width)) continue;
    if (counts.not_finite++ == 0) counts.first_not_finite = sample;
  }
}

/// Reads, predicts and writes blocks [first, last).
template <class T>
void predict_blocks(const Predictor& predictor, const StoredArray& input,
                    const std::vector<PlannedArray>& arrays, const File& out, std::int64_t first,
                    std::int64_t last, FilePrediction& counts) {
  const std::int64_t block = block_of(predictor), in = predictor.input_elements(),
                     outputs = predictor.output_elements(),
                     width = predictor.signature().output.shape.numel(), parts = outputs / width;
  std::vector<T> raw(static_cast<std::size_t>(block * in));
  std::vector<float> predictions(static_cast<std::size_t>(block * outputs));
  for (std::int64_t begin = first * block; begin < std::min(last * block, input.rows());
       begin += block) {
    const std::int64_t end = std::min(begin + block, input.rows()), n = end - begin;
    const auto samples = std::span(raw).first(static_cast<std::size_t>(n * in));
    const auto found = std::span(predictions).first(static_cast<std::size_t>(n * outputs));
    const auto write = [&](const PlannedArray& array, const auto& values) {
      const auto bytes = std::ssize(values) * static_cast<std::int64_t>(sizeof(values[0]));
      out.write_at(array.offset + begin * (bytes / n), values.data(), bytes);
    };
    input.read(begin, end, samples);
    if constexpr (std::is_same_v<T, float>) expect_finite(samples, begin, input);
    predictor.predict(samples, found);
    count_not_finite(found, outputs, begin, counts);
    if (parts == 1) {
      write(arrays[0], found);
    } else {
      for (std::size_t part = 0; part < arrays.size(); ++part)
        write(arrays[part], part_of_rows(found, width, parts, static_cast<std::int64_t>(part)));
    }
    if (predictor.signature().classes() > 0) write(arrays[1], largest_of_rows(found, width));
  }
}

/// Each rank computes its share of the blocks, some at a time. So ranks of different speed do not
/// drift apart by more than the group's deadline, and a failure of one ends all soon.
void predict_in_rounds(ProcessGroup& group, const Predictor& predictor, const StoredArray& input,
                       const std::vector<PlannedArray>& arrays, const File& out,
                       FilePrediction& counts) {
  constexpr std::int64_t blocks_a_round = 16;
  const std::int64_t block = block_of(predictor), blocks = (input.rows() + block - 1) / block,
                     most = (blocks + group.size() - 1) / group.size();
  const auto [first, end] = share_of(blocks, group);
  const bool integers = predictor.signature().input.dtype == DType::i64;
  for (std::int64_t done = 0; done < most; done += blocks_a_round) {
    const std::int64_t begin = std::min(first + done, end),
                       last = std::min(begin + blocks_a_round, end);
    agree(group, [&, begin, last] {
      const auto& predict = integers ? predict_blocks<std::int64_t> : predict_blocks<float>;
      predict(predictor, input, arrays, out, begin, last, counts);
    });
  }
  const auto first_of_mine =
      counts.not_finite > 0 ? counts.first_not_finite : std::numeric_limits<std::int64_t>::max();
  const auto all = static_cast<std::int64_t>(
      all_reduce_scalar(group, static_cast<double>(counts.not_finite), ReduceOp::sum));
  const double least = all_reduce_scalar(group, static_cast<double>(first_of_mine), ReduceOp::min);
  counts.not_finite = all;
  counts.first_not_finite = all > 0 ? static_cast<std::int64_t>(least) : -1;
}

/// Throws InputError if the settings in `now` would change the meaning of the model's inputs or
/// outputs.
void expect_same_meaning(const Datasets& data, const LossDeckOptions& loss,
                         const ModelSignature& signature) {
  const auto alike = [](const std::vector<double>& a, const std::vector<double>& b) {
    return std::ranges::equal(a, b, [](double x, double y) {
      return std::abs(x - y) <= 1e-6 * std::max(std::abs(x), std::abs(y));
    });
  };
  const DataFacts& facts = data.facts;
  const auto refuse = [](const std::string& what) {
    throw InputError(fmt::format(
        "{}: the weights fit the settings of the training. Leave out that --set.", what));
  };
  if (signature.classes() == 0 && (!alike(facts.target_mean, signature.output.mean) ||
                                   !alike(facts.target_std, signature.output.std))) {
    refuse(
        fmt::format("according to data.normalise_targets, target_mean and target_std the model's "
                    "outputs are {}, but they are {}",
                    facts.target_mean.empty() ? "as they are" : "normalised",
                    signature.output.mean.empty() ? "as they are" : "normalised differently"));
  }
  const bool gaussian = loss.kind.get_if<GaussianNllLoss>() != nullptr,
             was_gaussian = signature.kind == ModelSignature::Output::gaussian;
  if (signature.classes() == 0 && gaussian != was_gaussian) {
    refuse(fmt::format("loss.kind {} \"gaussian_nll\", but the model {} an uncertainty",
                       gaussian ? "is" : "is not", was_gaussian ? "outputs" : "does not output"));
  }
}

/// The data that a checkpoint's network was trained on.
DataOptions data_options_of(const fs::path& checkpoint) {
  Deck deck = Deck::parse(CheckpointFile(checkpoint).text("/deck"), checkpoint.string());
  return deck.read<DataOptions>("data");
}

/// The deck of a checkpoint, with the requested data.
Deck deck_of(const fs::path& checkpoint, const std::string& data,
             const std::vector<std::string>& overrides) {
  const std::string text = CheckpointFile(checkpoint).text("/deck"),
                    name = "the deck in " + checkpoint.string();
  const auto options = Deck::parse(text, name, overrides).read<DataOptions>("data");
  if (data.empty() && !options.test_set)
    throw InputError(fmt::format("{} has no test set: name data with --data.", name));
  if (data.empty()) return Deck::parse(text, name, overrides);
  if (options.kind.get_if<SyntheticOptions>()) {
    throw InputError(
        fmt::format("{} has data.kind = \"synthetic\", generated without a file: leave out --data, "
                    "or give the kind of {}: --set 'data.kind=\"hdf5\"'.",
                    name, data));
  }
  const std::string path = detail::to_toml(data);
  std::vector<std::string> all{"data.path=" + path, "data.test_path=" + path, "data.test_limit=0"};
  all.insert(all.end(), overrides.begin(), overrides.end());
  return Deck::parse(text, name, all);
}

std::unique_ptr<Task> task_of(Deck& deck, const ModelSignature& signature) {
  if (read_task_options(deck).data.kind.get_if<TokenOptions>())
    return std::make_unique<LanguageModel>(deck, Sets::test);
  if (signature.kind == ModelSignature::Output::log_probabilities)
    return std::make_unique<Classification>(deck, Sets::test);
  return std::make_unique<Regression>(deck, Sets::test);
}

void expect_alike(const Datasets& data, const ModelSignature& signature) {
  const TensorSignature& input = signature.input;
  if (data.test->sample_shape() != input.shape ||
      data.test->target_shape().numel() * std::max<std::int64_t>(1, data.test->classes()) !=
          signature.output.shape.numel()) {
    throw InputError(fmt::format(
        "the data have samples {} with targets {}, but the model maps {} {} to {} {}",
        to_string(data.test->sample_shape()), to_string(data.test->target_shape()), input.name,
        to_string(input.shape), signature.output.name, to_string(signature.output.shape)));
  }
  if (data.facts.divisor != input.divisor) {
    throw InputError(fmt::format(
        "the model was trained on {}, but the data are {}: store the data in the same form, so "
        "that their units are the same.",
        input.divisor == 1.0 ? "unscaled numbers" : "bytes, which are divided by 255",
        data.facts.divisor == 1.0 ? "other numbers" : "bytes, which are divided by 255"));
  }
}

/// The file layout from rank 0, for all ranks' writes.
struct Target {
  fs::path temporary;
  std::vector<std::int64_t> offsets;  ///< offsets of the arrays

  static auto fields(auto& self) { return std::tie(self.temporary, self.offsets); }
};

/// The output is HDF5, whatever its name.
void expect_hdf5_name(const fs::path& output) {
  const std::string ending = output.extension().string();
  if (!is_table(output) && ending != ".npy" && ending != ".npz") return;
  throw InputError(fmt::format("predictions are written as HDF5, not as {}: name the output {}",
                               ending, fs::path(output).replace_extension(".h5").string()));
}

}  // namespace

DataSetName DataSetName::parse(const std::string& text, const std::string& otherwise) {
  const auto colon = text.find_last_of(':');
  const bool in_folder =
      text.find('/', colon) != std::string::npos && fs::is_directory(fs::path(text).parent_path());
  if (colon == std::string::npos || in_folder || fs::exists(text)) return {text, otherwise};
  return {text.substr(0, colon), text.substr(colon + 1)};
}

fs::path with_checkpoint(ProcessGroup& group, const fs::path& checkpoint_or_run,
                         const std::function<void(const fs::path&)>& part) {
  constexpr int most_tries = 10;
  for (int tries = 1;; ++tries) {
    fs::path path = agree(group, 0, [&] { return checkpoint_of(checkpoint_or_run); });
    try {
      part(path);
      return path;
    } catch (const AgreedError&) {
      std::error_code unknown;
      const bool gone =
          agree(group, 0, [&] { return path != checkpoint_or_run && !fs::exists(path, unknown); });
      if (!gone || tries == most_tries) throw;
    }
    if (group.rank() == 0) log(LogLevel::warning, removed_meanwhile(path));
  }
}

FileOptions file_options_of(const fs::path& checkpoint) {
  const auto options = data_options_of(checkpoint);
  const auto* files = options.in_files();
  return files ? *files : FileOptions();
}

ImageOptions image_options_of(const fs::path& checkpoint) {
  const auto options = data_options_of(checkpoint);
  if (const auto* folder = options.kind.get_if<ImageFolderOptions>()) return folder->images;
  throw InputError(
      fmt::format("{} was trained with data.kind = \"{}\", and a folder is an input of models that "
                  "were trained with \"image_folder\". Name a file: --input FILE.h5:NAME.",
                  checkpoint.string(), options.kind.name()));
}

FilePrediction predict_file(ProcessGroup& group, const Predictor& predictor,
                            const DataSetName& input, const DataSetName& output) {
  std::shared_ptr<const StoredArray> samples;
  std::optional<AtomicFile> file;
  std::vector<PlannedArray> arrays;
  const std::vector<Target> targets = agree(group, [&] {
    if (!fs::exists(input.file)) {
      throw InputError(fmt::format("there is no input file {}. Name one: --input FILE.h5:NAME.",
                                   detail::looked_for(input.file)));
    }
    if (input.images) {
      samples = std::make_shared<const ImageArray>(input.file, *input.images);
    } else {
      samples = open_array(input.file, input.name, input.options);
    }
    expect_fits(*samples, input.file, predictor);
    arrays = arrays_of(predictor, output.name, samples->rows());
    Target target;
    if (group.rank() != 0) return target;
    expect_hdf5_name(output.file);
    expect_not_replaced(input.file, output.file);
    file.emplace(output.file);
    for (const FilePiece& piece : lay_out(arrays))
      file->file().write_at(piece.offset, piece.bytes.data(), std::ssize(piece.bytes));
    target.temporary = file->temporary_path();
    for (const PlannedArray& array : arrays) target.offsets.push_back(array.offset);
    return target;
  });
  const Target& target = targets.front();
  for (std::size_t i = 0; i < arrays.size(); ++i) arrays[i].offset = target.offsets[i];
  std::optional<File> out;
  agree(group, [&] { out.emplace(File::open_for_writing(target.temporary)); });
  FilePrediction counts{.samples = samples->rows()};
  predict_in_rounds(group, predictor, *samples, arrays, *out, counts);
  agree(group, [&] {
    samples->expect_unchanged();
    out->sync();
  });
  agree(group, 0, [&] { file->publish(); });
  return counts;
}

CheckpointEvaluation evaluate_checkpoint(const std::shared_ptr<ProcessGroup>& group,
                                         const fs::path& checkpoint_or_run, const std::string& data,
                                         const std::vector<std::string>& overrides) {
  std::optional<Predictor> predictor;
  std::unique_ptr<Task> task;
  EvalOptions options;
  RunPlan plan;
  std::optional<Deck> stored;
  CheckpointEvaluation evaluation;
  evaluation.checkpoint = with_checkpoint(*group, checkpoint_or_run, [&](const fs::path& path) {
    agree(*group, [&] {
      predictor.emplace(path);
      stored.emplace(deck_of(path, data, overrides));
    });
  });
  agree(*group, [&] {
    Deck& deck = *stored;
    plan = read_run_plan(deck);
    task = task_of(deck, predictor->signature());
    deck.check_all_read(KeysOfOtherKinds::passed_over);  // it may be an earlier version's
    options = deck.read<EvalOptions>("eval");
    expect_alike(task->data(), predictor->signature());
    expect_same_meaning(task->data(), deck.read<LossDeckOptions>("loss"), predictor->signature());
  });
  evaluation.samples = task->data().test->size();
  evaluation.class_names = predictor->signature().class_names;
  const std::int64_t classes = predictor->signature().classes();
  const bool counts = classes > 0 && classes <= WithConfusion::most_classes;
  const WithConfusion counted(*task, classes);
  const Task& judge = counts ? static_cast<const Task&>(counted) : *task;
  Evaluator evaluator(make_rank_groups(group, MeshOptions{}), judge, task->data().test,
                      options.batch_size);
  const Autocast autocast(plan.train.precision);
  const LayoutGuard layout(plan.run.layout);
  evaluation.figures = evaluator(predictor->model());
  if (!std::isfinite(evaluation.figures.loss) && group->rank() == 0) {
    log(LogLevel::warning,
        fmt::format("the loss is {}: the model's outputs are not finite for some samples, because "
                    "inputs or weights are too large for f32",
                    evaluation.figures.loss));
  }
  if (counts) evaluation.confusion = counted.take(evaluation.figures.metrics);
  return evaluation;
}

}  // namespace lockstep::train
