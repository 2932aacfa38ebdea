#include "identity.hpp"

#include <fmt/format.h>

#include <array>

#include <lockstep/base/cores.hpp>
#include <lockstep/base/host.hpp>
#include <lockstep/base/version.hpp>
#include <lockstep/checkpoint/file/metadata.hpp>

namespace lockstep::scaling {

Json Identity::json() const {
  return {{"deck", deck},       {"deck_hash", deck_hash},
          {"version", version}, {"git_commit", commit},
          {"cpu", cpu},         {"cores", cores},
          {"host", host},       {"mode", words(mode)},
          {"program", program}, {"batch_size", batch_size},
          {"steps", steps},     {"warmup_steps", warmup},
          {"threads", threads}};
}

Identity Identity::from(const Json& json) {
  const auto text = [&](const char* name) { return json.at(name).get<std::string>(); };
  const auto number = [&](const char* name) { return json.at(name).get<std::int64_t>(); };
  return {.deck = text("deck"),
          .deck_hash = text("deck_hash"),
          .version = text("version"),
          .commit = text("git_commit"),
          .cpu = text("cpu"),
          .cores = static_cast<int>(number("cores")),
          .host = text("host"),
          .mode = text("mode") == words(Mode::weak) ? Mode::weak : Mode::strong,
          .program = text("program"),
          .batch_size = number("batch_size"),
          .steps = number("steps"),
          .warmup = number("warmup_steps"),
          .threads = static_cast<int>(number("threads"))};
}

Identity identity_here() {
  Identity here;
  here.version = version();
  here.commit = build_info().git_commit;
  here.cpu = cpu_model();
  here.cores = static_cast<int>(allowed_cores().size());
  here.host = host_name();
  return here;
}

std::string difference(const Identity& before, const Identity& now, const std::string& across) {
  struct Question {
    const char* group;  ///< what `across` calls it
    const char* words;
    std::string before, now;
  };
  const auto build = [](const Identity& one) {
    return fmt::format("{}, commit {}", one.version, one.commit);
  };
  const auto machine = [](const Identity& one) {
    return fmt::format("{}, {} cores", one.cpu, one.cores);
  };
  const std::array questions{
      Question{"deck", "another deck", before.deck_hash, now.deck_hash},
      Question{"version", "another version", build(before), build(now)},
      Question{"machine", "another machine", machine(before), machine(now)},
      Question{"", "another mode", words(before.mode), words(now.mode)},
      Question{"", "another program", before.program, now.program},
      Question{"", "another number of measured steps", std::to_string(before.steps),
               std::to_string(now.steps)},
      Question{"", "another number of warm-up steps", std::to_string(before.warmup),
               std::to_string(now.warmup)},
      Question{"", "another number of cores a rank", std::to_string(before.threads),
               std::to_string(now.threads)},
  };
  for (const Question& question : questions) {
    if (question.before == question.now) continue;
    if (!across.empty() && across == question.group) continue;
    return fmt::format("{} ({}; now {})", question.words, question.before, question.now);
  }
  return {};
}

}  // namespace lockstep::scaling
