#include <fmt/format.h>

#include <cstdio>
#include <filesystem>

#include <lockstep/base/printable.hpp>
#include <lockstep/checkpoint/compare.hpp>
#include <lockstep/checkpoint/folder_of_checkpoints.hpp>
#include <lockstep/checkpoint/inspect.hpp>
#include <lockstep/checkpoint/weights/hugging_face.hpp>
#include <lockstep/checkpoint/weights/weights.hpp>
#include <lockstep/io/atomic_file.hpp>
#include <lockstep/io/folder.hpp>
#include <lockstep/nn/module.hpp>
#include <lockstep/train/report/standard_output.hpp>
#include <lockstep/train/run/init_from.hpp>

#include "commands.hpp"
#include "known_deck.hpp"

namespace lockstep::utility {
namespace fs = std::filesystem;
namespace {

/// Throws InputError for a folder.
void expect_no_folder(const std::string& file) {
  if (!fs::is_directory(file)) return;
  throw InputError(
      fmt::format("{0} is a folder: name a checkpoint in it; lockstep checkpoint latest {0} prints "
                  "the newest",
                  file));
}

/// What cannot be read is said on stderr.
void print(const CheckpointReport& report) {
  if (report.code == ExitCode::checkpoint) {
    std::fputs(("lockstep: " + printable(report.text)).c_str(), stderr);
  } else {
    train::write_stdout(printable(report.text));
  }
}

ExitCode print_reports(const std::vector<std::string>& files,
                       CheckpointReport (*report_on)(const std::filesystem::path&)) {
  ExitCode code = ExitCode::done;
  for (const auto& file : files) expect_no_folder(file);
  for (const auto& file : files) {
    const auto report = report_on(file);
    print(report);
    if (report.code != ExitCode::done) code = report.code;
  }
  return code;
}

ExitCode say_written(const std::string& path, const StateDict& model) {
  train::write_stdout(fmt::format("{}: {} tensors, {}\n", path, model.size(),
                                  format_bytes(static_cast<std::int64_t>(model.bytes()))));
  return ExitCode::done;
}

/// Matches the weights to the deck's model by name. The checkpoint then holds all that predictions
/// need.
void put_into_model(CheckpointContents& contents, const std::string& weights,
                    const std::string& deck) {
  const train::Assignment assignment = read_known_deck(deck, {});
  const auto model = assignment.task->make_model();
  const auto taken = train::take_weights(contents.model, model->state_dict());
  if (!taken.missing.empty() || !taken.other_shape.empty()) {
    throw InputError(
        fmt::format("{} does not fit the model in {}: {}. To start training from the tensors that "
                    "fit, name the file in train.init_from.",
                    weights, deck, taken.in_words()));
  }
  contents.model = model->state_dict();
  contents.deck = assignment.deck;
  contents.signature = assignment.task->signature();
}

}  // namespace

ExitCode inspect_checkpoints(const std::vector<std::string>& files) {
  return print_reports(files, inspect_checkpoint);
}

ExitCode verify_checkpoints(const std::vector<std::string>& files) {
  return print_reports(files, check_checkpoint);
}

ExitCode compare(const std::string& first, const std::string& second, double tolerance) {
  for (const auto& file : {first, second}) expect_no_folder(file);
  const auto report = compare_checkpoints(first, second, tolerance);
  print(report);
  return report.code;
}

ExitCode print_latest(const std::string& folder) {
  const fs::path inner = fs::path(folder) / "checkpoints";
  const auto newest = newest_good_checkpoint(fs::is_directory(inner) ? inner : fs::path(folder));
  if (!newest && !fs::exists(folder)) throw InputError(folder + " does not exist");
  if (!newest) throw CheckpointError("no intact checkpoint in " + folder);
  train::write_stdout(newest->string() + "\n");
  return ExitCode::done;
}

ExitCode export_weights(const std::string& checkpoint, const std::string& output,
                        const std::string& format, bool hugging_face) {
  const std::string ending = format.empty() ? fs::path(output).extension().string() : "." + format;
  if (ending != ".h5" && ending != ".safetensors") {
    throw InputError(
        "--output " + output +
        " ends neither in .h5 nor in .safetensors: add --format h5 or --format safetensors");
  }
  expect_not_replaced(checkpoint, output);
  auto contents = read_weights(checkpoint);
  if (hugging_face) contents.model = to_hugging_face_gpt2(contents.model);
  write_weights(output, contents, ending == ".h5" ? WeightsFormat::h5 : WeightsFormat::safetensors);
  return say_written(output, contents.model);
}

ExitCode import_weights(const std::string& weights, const std::string& output,
                        const std::string& deck) {
  expect_not_replaced(weights, output);
  if (!deck.empty()) expect_not_replaced(deck, output);
  auto contents = read_weights(weights);
  if (!deck.empty()) put_into_model(contents, weights, deck);
  write_weights(output, contents, WeightsFormat::h5);
  return say_written(output, contents.model);
}

}  // namespace lockstep::utility
