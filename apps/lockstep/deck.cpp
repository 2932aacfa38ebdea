#include <fmt/format.h>

#include <lockstep/deck/deck.hpp>
#include <lockstep/train/report/standard_output.hpp>

#include "commands.hpp"
#include "known_deck.hpp"

namespace lockstep::utility {
namespace {

/// Settings of a starting deck, by program.
DeckReference::Settings settings_of(const std::string& program) {
  if (program == "gpt") {
    return {{"run.dir", "\"runs/gpt\""},
            {"data.kind", "\"tokens\""},
            {"data.path", "\"tokens\""},
            {"data.context", "256"},
            {"model.kind", "\"gpt\""},
            {"model.width", "384"},
            {"model.depth", "6"},
            {"model.heads", "6"},
            {"train.epochs", "1"},
            {"train.batch_size", "32"},
            {"eval.batch_size", "32"},
            {"optimizer.kind", "\"adamw\""},
            {"optimizer.lr", "0.001"},
            {"optimizer.betas", "[0.9, 0.95]"},
            {"optimizer.weight_decay", "0.1"},
            {"optimizer.clip_norm", "1.0"},
            {"optimizer.group_pattern", "[\"*.bias\", \"*ln_?.weight\"]"},
            {"optimizer.group_weight_decay", "[0, 0]"}};
  }
  if (program == "fields") {
    return {{"run.dir", "\"runs/fields\""},
            {"data.kind", "\"hdf5\""},
            {"data.path", "\"steps.h5\""},
            {"data.train_features", "\"train/state\""},
            {"data.train_targets", "\"train/next\""},
            {"data.test_features", "\"test/state\""},
            {"data.test_targets", "\"test/next\""},
            {"data.normalise_targets", "true"},
            {"model.kind", "\"unet\""},
            {"model.channels", "16"},
            {"model.levels", "2"},
            {"train.epochs", "20"},
            {"train.batch_size", "20"},
            {"optimizer.kind", "\"adam\""},
            {"optimizer.lr", "0.003"}};
  }
  if (program == "regress") {
    return {{"run.dir", "\"runs/regress\""},
            {"data.kind", "\"hdf5\""},
            {"data.path", "\"heat.h5\""},
            {"data.train_features", "\"train/parameters\""},
            {"data.train_targets", "\"train/field\""},
            {"data.test_features", "\"test/parameters\""},
            {"data.test_targets", "\"test/field\""},
            {"model.kind", "\"mlp\""},
            {"model.hidden", "[128, 128]"},
            {"train.epochs", "60"},
            {"train.batch_size", "50"},
            {"optimizer.kind", "\"adam\""},
            {"optimizer.lr", "0.003"}};
  }
  return {{"run.dir", "\"runs/classify\""}, {"data.kind", "\"fashion_mnist\""},
          {"data.path", "\"auto\""},        {"model.kind", "\"convnet\""},
          {"train.epochs", "10"},           {"train.batch_size", "128"},
          {"optimizer.kind", "\"sgd\""},    {"optimizer.lr", "0.01"},
          {"optimizer.momentum", "0.5"}};
}

/// Another kind has other keys, so the table's settings are dropped with its kind.
void replace_kind(DeckReference::Settings& settings, const std::string& table,
                  const std::string& kind) {
  std::erase_if(settings,
                [&](const auto& setting) { return setting.first.starts_with(table + "."); });
  settings.emplace_back(table + ".kind", fmt::format("\"{}\"", kind));
  if (table == "data" && kind != "synthetic" && kind != "fashion_mnist")
    settings.emplace_back("data.path", "\"PATH\"");
}

}  // namespace

ExitCode check_deck(const std::string& file, const std::vector<std::string>& overrides) {
  const Deck deck = check_known_deck(file, overrides);
  train::write_stdout(fmt::format("{}# good; hash {}\n", deck.resolved(), deck.hash()));
  return ExitCode::done;
}

ExitCode print_deck_reference() {
  train::write_stdout(
      "# Keys of input decks\n\n"
      "`lockstep deck reference` prints this page. Each table of a deck has a section; a table "
      "with "
      "kinds has a section\nfor each kind, with the keys that only this kind has. \"only with\" "
      "names the program or the setting that needs a key.\nHow to write decks: "
      "[decks.md](../guide/decks.md).\n\n" +
      train::deck_reference().markdown());
  return ExitCode::done;
}

ExitCode print_new_deck(const std::string& program, const ChosenKinds& kinds) {
  DeckReference::Settings settings = settings_of(program);
  for (const auto& [table, kind] : kinds) replace_kind(settings, table, kind);
  train::write_stdout(
      fmt::format("# A deck of {}. A key behind a # has the default shown there.\n"
                  "#   mpiexec -n 2 {} THIS_FILE\n{}",
                  program,
                  program == "gpt"      ? "gpt train"
                  : program == "fields" ? "regress"
                                        : program,
                  train::deck_reference().commented_deck(settings)));
  return ExitCode::done;
}

}  // namespace lockstep::utility
