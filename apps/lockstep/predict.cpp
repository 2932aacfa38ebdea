#include <fmt/format.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <optional>

#include <lockstep/base/clock.hpp>
#include <lockstep/base/log.hpp>
#include <lockstep/comm/agreement.hpp>
#include <lockstep/data/files/data_files.hpp>
#include <lockstep/data/files/json_file.hpp>
#include <lockstep/io/atomic_file.hpp>
#include <lockstep/predict/predictor.hpp>
#include <lockstep/tensor/math_libraries.hpp>
#include <lockstep/train/launch/launch.hpp>
#include <lockstep/train/prediction.hpp>
#include <lockstep/train/run/memory_limit.hpp>
#include <lockstep/train/run/ranks.hpp>
#include <lockstep/train/verbs.hpp>

#include "commands.hpp"

namespace lockstep::utility {
namespace {

/// Runs `action` on the job's ranks, each with one math thread per core it owns.
ExitCode on_ranks(int argc, char** argv,
                  const std::function<std::string(const std::shared_ptr<ProcessGroup>&)>& work) {
  train::expect_file_size();
  return train::run_ranks_as_processes(
      "lockstep", {}, argc, argv,
      [&](const std::shared_ptr<ProcessGroup>& group, train::Console&, std::filesystem::path&) {
        set_math_threads(train::inspect_launch(*group, "").cores_owned());
        const std::string said = work(group);
        const ExitCode code = train::print(*group, said);
        group->close();
        return code;
      });
}

/// Per class, the number of samples predicted as that class.
std::vector<std::vector<std::int64_t>> rows_of(const train::Confusion& confusion) {
  std::vector<std::vector<std::int64_t>> rows;
  for (std::int64_t c = 0; c < confusion.classes(); ++c) {
    auto& row = rows.emplace_back();
    for (std::int64_t p = 0; p < confusion.classes(); ++p) row.push_back(confusion.count(c, p));
  }
  return rows;
}

}  // namespace

ExitCode predict(int argc, char** argv, const PredictOptions& options) {
  return on_ranks(argc, argv, [&](const std::shared_ptr<ProcessGroup>& group) {
    std::unique_ptr<Predictor> predictor;
    FileOptions as_trained;
    std::optional<ImageOptions> images;
    const auto of_input = train::DataSetName::parse(options.input, "").file;
    const auto checkpoint =
        train::with_checkpoint(*group, options.source, [&](const std::filesystem::path& path) {
          agree(*group, [&] {
            predictor = std::make_unique<Predictor>(path);
            if (is_table(of_input)) as_trained = train::file_options_of(path);
            if (std::filesystem::is_directory(of_input)) images = train::image_options_of(path);
          });
        });
    auto input = train::DataSetName::parse(options.input, predictor->signature().input.name);
    if (is_table(input.file)) input.options = as_trained;
    input.images = images;
    input.options.allow_external = options.allow_external;
    const auto output = train::DataSetName::parse(options.output, "predictions");
    agree(*group, [&] { expect_not_replaced(checkpoint, output.file); });
    const auto start = Clock::now();
    const train::FilePrediction done = train::predict_file(*group, *predictor, input, output);
    const double seconds = seconds_since(start);
    if (done.not_finite > 0 && group->rank() == 0) {
      log(LogLevel::warning,
          fmt::format(
              "the predictions of {} of {} samples are not finite, first at sample {}{}: inputs or "
              "weights are too large for f32",
              done.not_finite, done.samples, done.first_not_finite,
              predictor->signature().classes() > 0 ? "; their class is written as -1" : ""));
    }
    return fmt::format("{}: {} samples of {}:{} to {}:{} in {:.2f} s\n", checkpoint.string(),
                       done.samples, input.file.string(), input.name, output.file.string(),
                       output.name, seconds);
  });
}

ExitCode evaluate(int argc, char** argv, const EvaluateOptions& options) {
  return on_ranks(argc, argv, [&](const std::shared_ptr<ProcessGroup>& group) {
    const auto found =
        train::evaluate_checkpoint(group, options.source, options.data, options.overrides);
    nlohmann::ordered_json json{{"checkpoint", found.checkpoint.string()},
                                {"samples", found.samples},
                                {"loss", found.figures.loss}};
    std::string text = fmt::format("{}: {} samples\nloss {:.6g}\n", found.checkpoint.string(),
                                   found.samples, found.figures.loss);
    for (const auto& [name, value] : found.figures.metrics) {
      json[name] = value;
      text += fmt::format("{} {:.6g}\n", name, value);
    }
    if (const auto& confusion = found.confusion) {
      text += confusion->table(found.class_names);
      json["confusion"] = rows_of(*confusion);
    }
    return options.json ? detail::json_text(json, 2) + "\n" : text;
  });
}

}  // namespace lockstep::utility
