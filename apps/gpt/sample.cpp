#include <fmt/format.h>

#include <optional>

#include <lockstep/base/clock.hpp>
#include <lockstep/comm/agreement.hpp>
#include <lockstep/comm/objects.hpp>
#include <lockstep/data/data_options.hpp>
#include <lockstep/data/tokens/tokenizer.hpp>
#include <lockstep/nn/models/gpt_sampler.hpp>
#include <lockstep/tensor/math_libraries.hpp>
#include <lockstep/train/launch/launch.hpp>
#include <lockstep/train/prediction.hpp>
#include <lockstep/train/run/memory_limit.hpp>
#include <lockstep/train/run/ranks.hpp>
#include <lockstep/train/task/language_model.hpp>
#include <lockstep/train/verbs.hpp>

#include "commands.hpp"

namespace lockstep::gpt {
namespace {

/// The token before the text where no prompt is given.
std::int64_t first_token(const Tokenizer& tokenizer) {
  if (const auto mark = tokenizer.end_of_text()) return *mark;
  try {
    return tokenizer.encode("\n").front();
  } catch (const InputError&) {
    throw InputError(
        "the model's vocabulary has no line end to start a text from: give a --prompt.");
  }
}

/// A trained model and the tokens of the prompt.
struct Setting {
  train::TrainedGpt trained;
  std::unique_ptr<Tokenizer> tokenizer;
  std::vector<std::int64_t> prompt;

  Setting(const std::filesystem::path& checkpoint, const SampleOptions& options)
      : trained(train::load_gpt(checkpoint)) {
    DataOptions data = *trained.data;
    if (!options.tokenizer.empty()) {
      data.path = {options.tokenizer};
      auto& tokens = *data.kind.get_if<TokenOptions>();
      if (tokens.tokenizer != "gpt2") tokens.tokenizer.clear();
    }
    tokenizer = make_tokenizer(data);
    for (const std::uint16_t token : tokenizer->encode(options.prompt)) prompt.push_back(token);
    if (prompt.empty()) prompt.push_back(first_token(*tokenizer));
  }

  [[nodiscard]] std::string text(const SampleOptions& options, std::int64_t number) const {
    nn::GptSampler sampler(trained.model, prompt,
                           {.temperature = options.temperature,
                            .top_k = options.top_k,
                            .top_p = options.top_p,
                            .vocabulary = tokenizer->vocabulary(),
                            .seed = options.seed,
                            .number = static_cast<std::uint64_t>(number)});
    std::vector<std::uint16_t> tokens;
    for (std::int64_t i = 0; i < options.tokens; ++i)
      tokens.push_back(static_cast<std::uint16_t>(sampler.next()));
    return options.prompt + tokenizer->decode(tokens);
  }
};

}  // namespace

ExitCode sample(int argc, char** argv, const SampleOptions& options) {
  train::expect_file_size();
  return train::run_ranks_as_processes(
      "gpt sample", {}, argc, argv,
      [&](const std::shared_ptr<ProcessGroup>& group, train::Console&, std::filesystem::path&) {
        set_math_threads(train::inspect_launch(*group, "").cores_owned());
        std::optional<Setting> setting;
        train::with_checkpoint(*group, options.source, [&](const std::filesystem::path& path) {
          agree(*group, [&] { setting.emplace(path, options); });
        });
        std::string all;
        for (std::int64_t first = 0; first < options.samples; first += group->size()) {
          const auto texts = agree(*group, [&] {
            const std::int64_t mine = first + group->rank();
            return mine < options.samples ? setting->text(options, mine) : std::string();
          });
          for (int rank = 0; rank < group->size() && first + rank < options.samples; ++rank) {
            if (!all.empty()) all += "\n----\n";
            all += texts[static_cast<std::size_t>(rank)];
          }
        }
        const ExitCode code = train::print(*group, all + "\n");
        group->close();
        return code;
      });
}

}  // namespace lockstep::gpt
