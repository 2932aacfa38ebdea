// Language models: converts text to tokens, trains, generates text.
//   gpt tokens bible.txt --output bible
//   mpiexec -n 2 gpt train inputs/gpt_bible.toml
//   gpt sample runs/gpt_bible --prompt "In the beginning"
// Scripts that start APP DECK need not say train.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <functional>
#include <string_view>

#include <lockstep/base/version.hpp>
#include <lockstep/train/app.hpp>
#include <lockstep/train/task/language_model.hpp>

#include "commands.hpp"
#include "tool.hpp"

namespace {

constexpr const char* training = "Trains a language model (GPT-2) from an input deck.";

}  // namespace

int main(int argc, char** argv) {
  namespace gpt = lockstep::gpt;
  const std::string_view verb = argc > 1 ? argv[1] : "-";
  if (verb != "tokens" && verb != "sample" && !verb.starts_with('-')) {
    const int skipped = verb == "train" ? 1 : 0;
    lockstep::train::App app("gpt train", training, [](lockstep::Deck& deck) {
      return std::make_unique<lockstep::train::LanguageModel>(deck);
    });
    return app.run(argc - skipped, argv + skipped);
  }
  CLI::App cli("Language models: convert text to tokens, train, generate text.", "gpt");
  cli.set_version_flag("--version", fmt::format("gpt (Lockstep {})", lockstep::version()));
  cli.require_subcommand(1);
  cli.add_subcommand("train",
                     fmt::format("{} See gpt train --help; gpt DECK is the same.", training));
  std::function<lockstep::ExitCode()> action;

  gpt::TokensOptions from_text;
  auto* tokens =
      cli.add_subcommand("tokens", "convert text files into token files (data.kind = \"tokens\")");
  tokens->callback([&] { action = [&] { return gpt::make_tokens(from_text); }; });
  tokens->add_option("TEXT", from_text.texts, "text files; each is a text of its own")->required();
  tokens->add_option("-o,--output", from_text.output, "folder for the token files")->required();
  tokens->add_option("--tokenizer", from_text.tokenizer, "unit of a token")
      ->check(CLI::IsMember({"characters", "bytes", "gpt2"}))
      ->capture_default_str();
  tokens->add_option("--vocabulary", from_text.vocabulary,
                     "gpt2: folder with vocab.json and merges.txt");
  tokens
      ->add_option("--test-fraction", from_text.test_fraction,
                   "fraction at the end of each text used as the test set")
      ->check(lockstep::number_within(0, 0.99))
      ->capture_default_str();
  tokens->add_option("--shard-tokens", from_text.shard_tokens, "maximum number of tokens in a file")
      ->check(CLI::Range(1, 2147483647))
      ->capture_default_str();

  gpt::SampleOptions sampling;
  auto* sample = cli.add_subcommand("sample", "generate text with a trained model");
  sample->callback([&] { action = [&] { return gpt::sample(argc, argv, sampling); }; });
  sample->add_option("RUN", sampling.source, "a run folder or a checkpoint")->required();
  sample->add_option("--prompt", sampling.prompt, "beginning of the text");
  sample->add_option("--tokens", sampling.tokens, "number of tokens to generate")
      ->check(CLI::Range(1, 100'000'000))
      ->capture_default_str();
  sample->add_option("--samples", sampling.samples, "number of texts; the ranks share them out")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  sample
      ->add_option("--temperature", sampling.temperature,
                   "sampling temperature; 0: always the likeliest token")
      ->check(lockstep::number_within(0, 1000))
      ->capture_default_str();
  sample->add_option("--top-k", sampling.top_k, "sample from this many likeliest tokens; 0: all")
      ->check(lockstep::number_within(0, 65536))
      ->capture_default_str();
  sample
      ->add_option("--top-p", sampling.top_p,
                   "of these, sample from the likeliest with this total probability; 1: all")
      ->capture_default_str();
  sample->add_option("--seed", sampling.seed, "random seed; the same seed gives the same texts")
      ->check(lockstep::seed_of_64_bits())
      ->capture_default_str();
  sample->add_option("--tokenizer", sampling.tokenizer,
                     "folder with the tokenizer's files, if the run's data are gone");
  return lockstep::run_tool(cli, argc, argv, [&] { return action(); });
}
