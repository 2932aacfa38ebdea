// Language models: text to tokens, training, and text again.
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
  CLI::App cli("Language models: text to tokens, training, and text again.", "gpt");
  cli.set_version_flag("--version", fmt::format("gpt (Lockstep {})", lockstep::version()));
  cli.require_subcommand(1);
  cli.add_subcommand("train",
                     fmt::format("{} See gpt train --help; gpt DECK is the same.", training));
  std::function<lockstep::ExitCode()> action;

  gpt::TokensOptions from_text;
  auto* tokens = cli.add_subcommand("tokens", "text files to token files (data.kind = \"tokens\")");
  tokens->callback([&] { action = [&] { return gpt::make_tokens(from_text); }; });
  tokens->add_option("TEXT", from_text.texts, "files, each a text of its own")->required();
  tokens->add_option("-o,--output", from_text.output, "the folder of the token files")->required();
  tokens->add_option("--tokenizer", from_text.tokenizer, "what a token is")
      ->check(CLI::IsMember({"characters", "bytes", "gpt2"}))
      ->capture_default_str();
  tokens->add_option("--vocabulary", from_text.vocabulary,
                     "gpt2: the folder of its vocab.json and merges.txt");
  tokens
      ->add_option("--test-fraction", from_text.test_fraction,
                   "share of each text, at its end, that is the test set")
      ->check(lockstep::number_within(0, 0.99))
      ->capture_default_str();
  tokens->add_option("--shard-tokens", from_text.shard_tokens, "tokens of a file, at most")
      ->check(CLI::Range(1, 2147483647))
      ->capture_default_str();

  gpt::SampleOptions sampling;
  auto* sample = cli.add_subcommand("sample", "text that a trained model makes up");
  sample->callback([&] { action = [&] { return gpt::sample(argc, argv, sampling); }; });
  sample->add_option("RUN", sampling.source, "a run folder, or a checkpoint")->required();
  sample->add_option("--prompt", sampling.prompt, "how the text begins");
  sample->add_option("--tokens", sampling.tokens, "how many follow")
      ->check(CLI::Range(1, 100'000'000))
      ->capture_default_str();
  sample->add_option("--samples", sampling.samples, "texts; ranks share them out")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  sample
      ->add_option("--temperature", sampling.temperature,
                   "of the choice of a token; 0: always the likeliest")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  sample->add_option("--top-k", sampling.top_k, "choose among the so many likeliest; 0: all")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  sample
      ->add_option("--top-p", sampling.top_p,
                   "and of these among the likeliest that together have this probability; 1: all")
      ->capture_default_str();
  sample->add_option("--seed", sampling.seed, "the same seed gives the same texts")
      ->check(lockstep::seed_of_64_bits())
      ->capture_default_str();
  sample->add_option("--tokenizer", sampling.tokenizer,
                     "the folder of its files, where the run's data have gone");
  return lockstep::run_tool(cli, argc, argv, [&] { return action(); });
}
