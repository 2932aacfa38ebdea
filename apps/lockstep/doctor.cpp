#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <iterator>
#include <optional>

#include <lockstep/base/clock.hpp>
#include <lockstep/comm/mpi_group.hpp>
#include <lockstep/comm/objects.hpp>
#include <lockstep/deck/deck.hpp>
#include <lockstep/nn/module.hpp>
#include <lockstep/parallel/bucket_plan.hpp>
#include <lockstep/train/agreement.hpp>
#include <lockstep/train/launch/checks.hpp>
#include <lockstep/train/launch/shared_folder.hpp>
#include <lockstep/train/library_versions.hpp>
#include <lockstep/train/run_plan.hpp>
#include <lockstep/train/task.hpp>

#include "commands.hpp"
#include "examination.hpp"

namespace lockstep::utility {
namespace {

namespace fs = std::filesystem;

/// What a deck adds to the examination.
struct Patient {
  std::string hash;
  std::string run_folder = "runs";
  std::optional<std::size_t> gradient_bytes;
};

std::size_t bucket_bytes(const nn::Module& model, const BucketOptions& options) {
  std::vector<Tensor> parameters;
  for (const Variable& parameter : model.parameters()) {
    if (parameter.requires_grad()) parameters.push_back(parameter.data());
  }
  std::size_t bytes = 0;
  for (const BucketPlan& bucket : plan_buckets(parameters, options)) bytes += bucket.bytes;
  return bytes;
}

Patient read_patient(const DoctorOptions& options) {
  if (options.deck.empty()) return {};
  auto deck = Deck::load(options.deck, options.overrides);
  const train::RunPlan plan = train::read_run_plan(deck);
  const train::Classification task(deck);
  deck.check_all_read();
  Patient patient{.hash = deck.hash(),
                  .gradient_bytes = bucket_bytes(*task.make_model(), plan.ddp.buckets)};
  patient.run_folder = plan.run.dir.empty()
                           ? (fs::path("runs") / fs::path(options.deck).stem()).string()
                           : plan.run.dir;
  return patient;
}

/// The folder itself or what of its path is there: the doctor leaves nothing behind.
std::string existing_part(ProcessGroup& group, const std::string& folder) {
  fs::path path = fs::absolute(folder);
  std::error_code ignored;
  while (!fs::is_directory(path, ignored) && path.has_relative_path()) path = path.parent_path();
  return broadcast_object(group, path.string(), 0);
}

void add(train::Findings& all, train::Findings&& more) {
  std::ranges::move(more, std::back_inserter(all));
}

Examination examine(ProcessGroup& group, const DoctorOptions& options) {
  Patient patient;
  train::agree(group, [&] { patient = read_patient(options); });
  Examination found;
  const auto start = Clock::now();
  found.launch = train::inspect_launch(group, patient.hash);
  found.findings = train::check_launch(found.launch);
  found.seconds = seconds_since(start);
  found.libraries = train::library_versions();
  found.gradient_bytes = patient.gradient_bytes;
  found.run_folder = existing_part(group, patient.run_folder);
  add(found.findings, train::check_shared_folder(group, found.launch.layout, found.run_folder));
  add(found.findings, train::check_shared_memory(found.launch, patient.gradient_bytes.value_or(0)));
  found.links = train::measure_links(group);
  // Ranks that take turns on a core would be blamed on the links.
  if (train::check_cores(found.launch).empty()) {
    add(found.findings, train::check_links(found.links, found.launch.layout));
  }
  std::stable_partition(found.findings.begin(), found.findings.end(),
                        std::mem_fn(&train::Finding::is_error));
  return found;
}

}  // namespace

ExitCode doctor(int argc, char** argv, const DoctorOptions& options) {
  const MpiSession mpi(argc, argv);
  const auto group = make_mpi_group(MPI_COMM_WORLD);
  try {
    const Examination found = examine(*group, options);
    if (group->rank() == 0) {
      fmt::print("{}", options.json ? as_json(found) : as_text(found));
    }
    group->close();
    return found.has_error() ? ExitCode::bad_input : ExitCode::done;
  } catch (const train::AgreedError& error) {
    if (group->rank() == 0) fmt::print(stderr, "lockstep: {}\n", error.what());
    group->close();
    return error.exit_code();
  }
}

}  // namespace lockstep::utility
