#include <lockstep/train/report/summary.hpp>

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include <lockstep/base/read_file.hpp>
#include <lockstep/base/version.hpp>
#include <lockstep/checkpoint/file/metadata.hpp>
#include <lockstep/data/files/json_file.hpp>

namespace lockstep::train {

std::optional<MeasuredFigures> measured_figures(const std::filesystem::path& summary,
                                                std::int64_t steps) {
  using Json = nlohmann::ordered_json;
  constexpr std::int64_t longest = std::int64_t{1} << 24U;
  const Json json = Json::parse(read_small_file_or_nothing(summary, longest), nullptr,
                                /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("steps") || json.at("steps") != steps) return {};
  const auto number = [&](const char* key) {
    return json.contains(key) && json.at(key).is_number()
               ? json.at(key).get<double>()
               : std::numeric_limits<double>::quiet_NaN();
  };
  return MeasuredFigures{number("samples_per_s"), number("first_step_s"), number("wall_s")};
}

std::vector<std::int64_t> mib_of_ranks(ProcessGroup& group, std::int64_t bytes) {
  const std::vector<std::int64_t> mine{bytes >> 20U};
  const Tensor all = Tensor::empty({group.size(), 1}, DType::i64);
  group.all_gather(Tensor::from(mine, {1}), all).wait();
  return all.to_vector<std::int64_t>();
}

std::string summary_json(const ProcessGroup& group, const Launch& launch, const Outcome& outcome,
                         const SummaryFacts& facts) {
  using Json = nlohmann::ordered_json;
  const auto number = [](double value) {
    return std::isfinite(value) ? Json(value) : Json(nullptr);
  };
  const bool stopped = outcome.stopped != StopReason::none;
  Json libraries = Json::object();
  for (const auto& [name, value] : facts.libraries) libraries[name] = value;
  const BuildInfo& build = build_info();
  Json json{
      {"app", facts.app},
      {"completed", facts.completed},
      {"stopped_early", stopped},
      {"early_stopping", outcome.early_stopping},
      {"stopped_by", stopped ? Json(words(outcome.stopped)) : Json(nullptr)},
      {"ranks", group.size()},
      {"backend", group.backend()},
      {"threads", facts.threads},
      {"hosts", launch.layout.hosts()},
      {"epochs", outcome.epochs},
      {"steps", outcome.steps},
      {"train_loss", number(outcome.train_loss)},
  };
  const auto add = [&](const std::string& set, const std::optional<Evaluation>& found) {
    if (!found) return;
    json[set + "_loss"] = number(found->loss);
    for (const auto& [name, value] : found->metrics)
      json[fmt::format("{}_{}", set, name)] = number(value);
  };
  add("validation", outcome.validation);
  json["test_loss"] = nullptr;
  add("test", outcome.test);
  if (outcome.comm_hook) {
    json["comm_hook"] = outcome.comm_hook->name;
    json["gradient_bytes_sent"] = outcome.comm_hook->bytes.sent;
    json["gradient_bytes_replaced"] = outcome.comm_hook->bytes.replaced;
  }
  json.update({
      {"samples_per_s", number(outcome.samples_per_s)},
      {"wall_s", number(facts.wall_s)},
      {"first_step_s", number(outcome.first_step_s)},
      {"peak_rss_mib", facts.peak_rss_mib},
  });
  if (!facts.peak_device_mib.empty()) json["peak_device_mib"] = facts.peak_device_mib;
  json.update({
      {"seed", facts.seed},
      {"deck_hash", facts.deck_hash},
      {"version", version()},
      {"git_commit", build.git_commit},
      {"compiler", build.compiler},
      {"flags", build.flags},
      {"arch", build.arch},
      {"cpu_features", cpu_features()},
      {"libraries", libraries},
  });
  return detail::json_text(json, 2) + "\n";
}

}  // namespace lockstep::train
