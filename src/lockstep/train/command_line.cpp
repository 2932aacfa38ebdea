#include <lockstep/train/command_line.hpp>

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <string_view>
#include <vector>

#include <lockstep/base/error.hpp>
#include <lockstep/base/version.hpp>

namespace lockstep::train {
namespace {

/// Each rank takes memory and computing time: with this many on two cores the first step ends after
/// a minute and a half.
constexpr int most_threads = 1024;

}  // namespace

CommandLine parse_command_line(const std::string& name, const std::string& description, int argc,
                               char** argv) {
  CommandLine line;
  std::string resume;
  CLI::App cli(
      fmt::format("{0}\nStart it with: mpiexec -n RANKS {1} DECK, or, on one machine and without "
                  "mpiexec: {1} DECK --ranks-as-threads RANKS",
                  description, name),
      name);
  cli.add_option("DECK", line.deck, "input deck, a TOML file (keys: lockstep deck reference)")
      ->required();
  cli.add_option("--set", line.overrides,
                 "override a key of the deck: --set train.epochs=2 --set 'run.dir=\"runs/x\"'")
      ->type_name("TABLE.KEY=VALUE")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->allow_extra_args(false);
  cli.add_flag("--resume{latest}", resume,
               "resume from the run folder's newest good checkpoint, or from --resume=FILE");
  cli.add_flag("--dry-run", line.dry_run, "check the deck and the data, print all settings, stop");
  cli.add_flag("--check-gradients", line.check_gradients,
               "compare the model's gradients with finite differences on a few samples, stop");
  cli.add_flag("--describe", line.describe,
               "print the model's layers: shapes, parameters, FLOPs, memory; stop");
  auto* doctor = cli.add_flag("--doctor", line.doctor,
                              "check the launch: cores, memory and libraries of each rank; stop");
  cli.add_flag("--json", line.json, "with --doctor: print one JSON object instead of text")
      ->needs(doctor);
  cli.add_option("--ranks-as-threads", line.ranks_as_threads,
                 "run this many ranks as threads of this process: no mpiexec, no MPI")
      ->type_name("RANKS")
      ->check(CLI::Range(1, most_threads));
  cli.set_version_flag("--version", fmt::format("{} (Lockstep {})", name, version()));
  cli.footer(
      "Exit codes: 0 done, 1 failure, 2 bad command line, deck or data, 3 communication failure,\n"
      "4 checkpoint unusable, 75 stopped early on request, state saved.");
  try {
    cli.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    line.text_only = cli.help();
  } catch (const CLI::CallForVersion& version_text) {
    line.text_only = std::string(version_text.what()) + "\n";
  } catch (const CLI::RequiredError& error) {
    const std::vector<std::string> rest = cli.remaining();  // the reason, if there are any
    if (rest.empty()) throw InputError(fmt::format("{}. Try {} --help.", error.what(), name));
    throw InputError(
        fmt::format("{} is not an option of {}. Try {} --help.", rest.front(), name, name));
  } catch (const CLI::ParseError& error) {
    throw InputError(fmt::format("{}. Try {} --help.", error.what(), name));
  }
  if (line.dry_run + line.check_gradients + line.describe + line.doctor > 1) {
    throw InputError(
        "--dry-run, --check-gradients, --describe and --doctor exclude each other: give one of "
        "them.");
  }
  // CLI11 reads it as --resume alone, but a file was meant: --resume=$CHECKPOINT with an empty
  // variable.
  if (std::any_of(argv, argv + argc, [](std::string_view word) { return word == "--resume="; })) {
    throw InputError(
        "--resume= has no file: write --resume=FILE, or --resume alone for the newest good "
        "checkpoint.");
  }
  line.resume = !resume.empty();
  if (resume != "latest") line.resume_from = resume;
  return line;
}

std::string CommandLine::verb() const {
  if (text_only) return "--help or --version";
  if (dry_run) return "--dry-run";
  if (check_gradients) return "--check-gradients";
  if (describe) return "--describe";
  if (doctor) return json ? "--doctor --json" : "--doctor";
  if (!resume) return "";
  return resume_from.empty() ? "--resume" : "--resume=FILE";
}

}  // namespace lockstep::train
