#include <lockstep/train/launch/examination.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <iterator>
#include <nlohmann/json.hpp>

#include <lockstep/base/clock.hpp>
#include <lockstep/base/version.hpp>
#include <lockstep/comm/agreed_error.hpp>
#include <lockstep/comm/objects.hpp>
#include <lockstep/data/files/json_file.hpp>
#include <lockstep/nn/init.hpp>
#include <lockstep/nn/module.hpp>
#include <lockstep/parallel/bucket_plan.hpp>
#include <lockstep/train/launch/checks.hpp>
#include <lockstep/train/launch/shared_folder.hpp>
#include <lockstep/train/report/library_versions.hpp>
#include <lockstep/train/run/device_choice.hpp>
#include <lockstep/train/run/rank_groups.hpp>
#include <lockstep/train/run/run_plan.hpp>
#include <lockstep/train/task/task.hpp>

namespace lockstep::train {
namespace {

namespace fs = std::filesystem;

std::size_t bucket_bytes(const nn::Module& model, const BucketOptions& options) {
  std::vector<Tensor> parameters;
  for (const Variable& parameter : model.parameters()) {
    if (parameter.requires_grad()) parameters.push_back(parameter.data());
  }
  std::size_t bytes = 0;
  for (const BucketPlan& bucket : plan_buckets(parameters, options)) bytes += bucket.bytes;
  return bytes;
}

/// The folder or its nearest existing parent: the doctor leaves nothing behind.
std::string existing_part(ProcessGroup& group, const std::string& folder) {
  fs::path path = fs::absolute(folder);
  std::error_code ignored;
  while (!fs::is_directory(path, ignored) && path.has_relative_path()) path = path.parent_path();
  return broadcast_object(group, path.string(), 0);
}

void add(Findings& all, Findings&& more) { std::ranges::move(more, std::back_inserter(all)); }

const char* severity(const Finding& finding) { return finding.is_error() ? "error" : "warning"; }

std::string rank_line(const Launch& launch, int rank) {
  const RankInfo& info = launch.info(rank);
  return fmt::format("rank {} on {} (its rank {} of {}): cores {}, owns {}{}\n", rank, info.host,
                     launch.layout.local_rank(rank), launch.layout.local_size(rank),
                     core_list(info.cores), launch.cores_owned(rank),
                     info.gpu.empty() ? "" : "; GPU " + info.gpu);
}

std::string shm_line(const Launch& launch, int node) {
  const auto& ranks = launch.layout.ranks_on(node);
  const RankInfo& info = launch.info(ranks.front());
  // An f32 gradient takes four bytes on each rank.
  const double parameters = info.shm_free_mib * 0x1p20 / 4 / static_cast<double>(ranks.size());
  const bool gradients_lie_there = ranks.size() > 1 && !launch.is_one_process();
  return fmt::format(
      "/dev/shm on {}: {:.1f} of {:.1f} MiB free{}\n", info.host, info.shm_free_mib, info.shm_mib,
      !gradients_lie_there ? ""
                           : fmt::format(", room for models of {:.1f} million f32 parameters on {} "
                                         "ranks",
                                         parameters / 1e6, ranks.size()));
}

/// Sets `device` to the deck's. An error if that is not available. Collective.
Findings check_device(ProcessGroup& group, const RunOptions& options, Device& device) {
  try {
    device = choose_device(group, options).device;
    return {};
  } catch (const AgreedError& error) {
    const std::string text = error.what();
    const auto end = text.find(". ");
    if (end == std::string::npos) return {{Finding::Severity::error, "device", text, ""}};
    return {{Finding::Severity::error, "device", text.substr(0, end), text.substr(end + 2)}};
  }
}

}  // namespace

DeckFacts facts_of(const Task& task, const RunPlan& plan, const std::string& deck_hash) {
  const nn::SkipInit for_shapes;
  return {.deck_hash = deck_hash,
          .run_folder = plan.run.dir,
          .run = plan.run,
          .gradient_bytes = bucket_bytes(*task.make_model(), plan.ddp.buckets),
          .batch_size = plan.train.batch_size,
          .mesh = plan.mesh};
}

Examination examine(ProcessGroup& group, const DeckFacts& facts) {
  Examination found;
  Device device;
  Findings of_device = check_device(group, facts.run, device);
  const auto start = Clock::now();
  found.launch = inspect_launch(group, facts.deck_hash, device);
  found.findings = check_launch(found.launch);
  found.seconds = seconds_since(start);
  found.libraries = library_versions();
  found.gradient_bytes = facts.gradient_bytes;
  found.run_folder = existing_part(group, facts.run_folder);
  add(found.findings, std::move(of_device));
  add(found.findings, check_shared_folder(group, found.launch.layout, found.run_folder));
  add(found.findings, check_shared_memory(found.launch, facts.gradient_bytes.value_or(0)));
  if (facts.batch_size > 0)
    add(found.findings,
        check_batch_size(facts.batch_size, parts_of_batch(facts.mesh, group.size())));
  found.links = measure_links(group);
  // Ranks that share a core would make links look slow.
  if (check_cores(found.launch).empty()) {
    add(found.findings, check_links(found.links, found.launch.layout));
  }
  std::stable_partition(found.findings.begin(), found.findings.end(),
                        std::mem_fn(&Finding::is_error));
  return found;
}

bool Examination::has_error() const { return std::ranges::any_of(findings, &Finding::is_error); }

std::string as_text(const Examination& examination) {
  const Launch& launch = examination.launch;
  std::string text = fmt::format("Lockstep {}\n", version());
  for (const auto& [name, value] : examination.libraries) {
    text += fmt::format("{}: {}\n", name, value);
  }
  const std::string& level = launch.info(0).thread_level;
  text += fmt::format("threads: {}\n", !level.empty() ? level
                                       : launch.is_one_process()
                                           ? "the ranks of one process, without MPI"
                                           : "one, without MPI");
  for (int rank = 0; rank < launch.size(); ++rank) text += rank_line(launch, rank);
  for (std::size_t node = 0; node < launch.layout.hosts().size(); ++node) {
    text += shm_line(launch, static_cast<int>(node));
  }
  if (examination.gradient_bytes) {
    text += fmt::format("gradients: {:.1f} MiB a rank\n",
                        static_cast<double>(*examination.gradient_bytes) / 0x1p20);
  }
  for (const Link& link : examination.links) {
    text += fmt::format("link from rank {} to rank {}: {:.1f} us, {:.2f} GB/s\n", link.from,
                        link.to, link.latency_us, link.bandwidth_gb_s);
  }
  text += fmt::format("run folder: checked in {}\n", examination.run_folder);
  text += fmt::format("the checks that every application runs at its start took {:.1f} ms\n",
                      examination.seconds * 1e3);
  for (const Finding& finding : examination.findings) {
    text += fmt::format("{}: {}\n", severity(finding), finding.text());
  }
  return text + fmt::format("{} finding(s)\n", examination.findings.size());
}

std::string as_json(const Examination& examination) {
  using Json = nlohmann::ordered_json;
  const Launch& launch = examination.launch;
  Json json{{"version", version()}, {"libraries", Json::object()}, {"ranks", Json::array()}};
  for (const auto& [name, value] : examination.libraries) json["libraries"][name] = value;
  for (int rank = 0; rank < launch.size(); ++rank) {
    const RankInfo& info = launch.info(rank);
    json["ranks"].push_back({{"rank", rank},
                             {"host", info.host},
                             {"local_rank", launch.layout.local_rank(rank)},
                             {"local_size", launch.layout.local_size(rank)},
                             {"pid", info.pid},
                             {"cores", info.cores},
                             {"cores_owned", launch.cores_owned(rank)},
                             {"gpu", info.gpu},
                             {"thread_level", info.thread_level},
                             {"processor", info.processor},
                             {"shm_mib", info.shm_mib},
                             {"shm_free_mib", info.shm_free_mib}});
  }
  json["links"] = Json::array();
  for (const Link& link : examination.links) {
    json["links"].push_back({{"from", link.from},
                             {"to", link.to},
                             {"latency_us", link.latency_us},
                             {"bandwidth_gb_s", link.bandwidth_gb_s}});
  }
  json["run_folder"] = examination.run_folder;
  if (examination.gradient_bytes) json["gradient_bytes"] = *examination.gradient_bytes;
  json["app_start_ms"] = examination.seconds * 1e3;
  json["findings"] = Json::array();
  for (const Finding& finding : examination.findings) {
    json["findings"].push_back({{"severity", severity(finding)},
                                {"about", finding.about},
                                {"sentence", finding.sentence},
                                {"remedy", finding.remedy}});
  }
  json["error"] = examination.has_error();
  return detail::json_text(json, 2) + "\n";
}

}  // namespace lockstep::train
