// The utility beside the training programs: looks at decks, checkpoints and the launch.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>

#include <lockstep/base/version.hpp>
#include <lockstep/checkpoint/inspect.hpp>
#include <lockstep/comm/mpi_group.hpp>
#include <lockstep/data/data_options.hpp>
#include <lockstep/deck/deck.hpp>
#include <lockstep/nn/models.hpp>
#include <lockstep/train/launch.hpp>
#include <lockstep/train/library_versions.hpp>
#include <lockstep/train/run_plan.hpp>

namespace {

using lockstep::ExitCode;

ExitCode check_deck(const std::string& file, const std::vector<std::string>& overrides) {
  auto deck = lockstep::Deck::load(file, overrides);
  static_cast<void>(lockstep::train::read_run_plan(deck));
  static_cast<void>(deck.read<lockstep::nn::ModelOptions>("model"));
  static_cast<void>(deck.read<lockstep::DataOptions>("data"));
  deck.check_all_read();
  fmt::print("{}# good; hash {}\n", deck.resolved(), deck.hash());
  return ExitCode::done;
}

ExitCode print_reports(const std::vector<std::string>& files,
                       lockstep::CheckpointReport (*report_on)(const std::filesystem::path&)) {
  ExitCode code = ExitCode::done;
  for (const auto& file : files) {
    const auto report = report_on(file);
    fmt::print("{}", report.text);
    if (report.code != ExitCode::done) code = report.code;
  }
  return code;
}

ExitCode doctor(int argc, char** argv) {
  const lockstep::MpiSession mpi(argc, argv);
  const auto group = lockstep::make_mpi_group(MPI_COMM_WORLD);
  const auto launch = lockstep::train::inspect_launch(*group);
  const auto findings = lockstep::train::check_launch(*group, launch, "");
  const auto places = lockstep::all_gather_object(
      *group, fmt::format("rank {} on {}: {} core(s) of its own", group->rank(), launch.host,
                          launch.cores_owned()));
  bool fatal = false;
  for (const auto& finding : findings) fatal = fatal || finding.fatal;
  if (group->rank() == 0) {
    fmt::print("Lockstep {}\n", lockstep::version());
    for (const auto& [name, value] : lockstep::train::library_versions())
      fmt::print("{}: {}\n", name, value);
    fmt::print("{}\n", fmt::join(places, "\n"));
    for (const auto& finding : findings)
      fmt::print("{}: {}\n", finding.fatal ? "error" : "warning", finding.sentence);
    fmt::print("{} finding(s)\n", findings.size());
  }
  group->close();
  return fatal ? ExitCode::bad_input : ExitCode::done;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App cli("Looks at decks, checkpoints and the launch of a Lockstep job.", "lockstep");
  cli.set_version_flag("--version", fmt::format("lockstep {}", lockstep::version()));
  cli.require_subcommand(1);
  std::vector<std::string> files, overrides;

  const auto* doctor_command =
      cli.add_subcommand("doctor", "what the launch gave each rank, and what is wrong with it");
  auto* deck = cli.add_subcommand("deck", "input decks")->require_subcommand(1);
  auto* deck_check =
      deck->add_subcommand("check", "read a deck, print it resolved, or say what is wrong");
  deck_check->add_option("FILE", files, "the deck")->required()->expected(1);
  deck_check->add_option("--set", overrides, "override a key: table.key=value")
      ->expected(1)
      ->allow_extra_args(false);
  const auto* deck_reference =
      deck->add_subcommand("reference", "every table and key, in Markdown");
  auto* checkpoint = cli.add_subcommand("checkpoint", "checkpoint files")->require_subcommand(1);
  auto* inspect = checkpoint->add_subcommand("inspect", "what a checkpoint holds and who wrote it");
  auto* verify = checkpoint->add_subcommand(
      "verify", "compare every byte with its checksum; exit 4 if one is wrong");
  for (auto* command : {inspect, verify})
    command->add_option("FILE", files, "checkpoints")->required();

  try {
    cli.parse(argc, argv);
    ExitCode code = ExitCode::done;
    if (doctor_command->parsed()) code = doctor(argc, argv);
    if (deck_check->parsed()) code = check_deck(files.front(), overrides);
    if (deck_reference->parsed()) fmt::print("{}", lockstep::train::deck_reference());
    if (inspect->parsed()) code = print_reports(files, lockstep::inspect_checkpoint);
    if (verify->parsed()) code = print_reports(files, lockstep::check_checkpoint);
    return static_cast<int>(code);
  } catch (const CLI::ParseError& error) {
    return cli.exit(error) == 0 ? 0 : static_cast<int>(ExitCode::bad_input);
  } catch (const lockstep::Error& error) {
    fmt::print(stderr, "lockstep: {}\n", error.what());
    return static_cast<int>(error.exit_code());
  }
}
