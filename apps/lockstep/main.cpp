// The utility beside the training programs: runs trained networks; inspects decks, models,
// checkpoints and the launch.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <functional>
#include <limits>

#include <lockstep/base/version.hpp>

#include "commands.hpp"
#include "tool.hpp"

namespace {

void add_elastic(CLI::App* command, lockstep::elastic::Options& options) {
  constexpr double a_century_s = 3.2e9;
  const auto seconds = [&](const char* name, double& value, const char* help) {
    command->add_option(name, value, help)
        ->check(lockstep::number_within(0, a_century_s))
        ->type_name("SECONDS")
        ->capture_default_str();
  };
  const auto count = [&](const char* name, int& value, const char* help) {
    return command->add_option(name, value, help)
        ->check(CLI::Range(0, std::numeric_limits<int>::max()));
  };
  count("--min", options.min, "minimum number of ranks")->capture_default_str();
  count("--max", options.max, "maximum number of ranks")->required();
  count("--restarts", options.restarts, "maximum number of restarts after failures")
      ->capture_default_str();
  seconds("--within", options.within,
          "seconds after which a failure no longer counts; 0: all count");
  seconds("--rejoin", options.rejoin, "seconds for which a lost slot or host is not used");
  seconds("--settle", options.settle, "seconds after which a change of members counts");
  seconds("--wait", options.wait, "maximum seconds to wait for --min slots");
  seconds(
      "--hang-after", options.hang_after,
      "seconds without a sign of life after which a run is ended; 0: the deck's comm.timeout + 60");
  seconds("--save-within", options.save_within,
          "seconds after which ranks that were asked to save and end are killed");
  command->add_option("--dir", options.dir,
                      "for a program without a deck: folder of elastic.jsonl; default: "
                      "runs/PROGRAM");
  count("--shards", options.shards,
        "for a program without a deck: only numbers of ranks that divide it are used")
      ->type_name("N");
  command->add_option("--members", options.members,
                      "file of lines HOST SLOTS, which may change; default: the Slurm allocation, "
                      "else --max slots on this machine");
  command->add_option(
      "--launcher", options.launcher,
      "launcher command; default: srun in a Slurm allocation, else MPICH's mpiexec");
  command->add_option("COMMAND", options.command, "after --: program and arguments")
      ->required()
      ->expected(-1);
}

void add_scaling(CLI::App* command, lockstep::scaling::Options& options) {
  using lockstep::scaling::Mode;
  constexpr double a_week_s = 604'800;
  constexpr int most_ranks = 1 << 20;
  const auto count = [&](const char* name, auto& value, const char* help, std::int64_t least) {
    command->add_option(name, value, help)
        ->check(lockstep::number_within(static_cast<double>(least), 1e9))
        ->capture_default_str();
  };
  const auto sizes = [&](const char* name, std::vector<int>& value, const char* help) {
    command->add_option(name, value, help)->delimiter(',')->check(CLI::Range(1, most_ranks));
  };
  command->add_option("DECK", options.deck,
                      "a deck of classify, regress or gpt; with --program any");
  command->add_option("--set", options.overrides, "override a key: table.key=value")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->allow_extra_args(false);
  command->add_option("-o,--output", options.output,
                      "folder of the study: a new one, or one to continue");
  sizes("--ranks", options.ranks, "numbers of ranks: 1,2,4,8");
  sizes("--nodes", options.nodes,
        "nodes of each, or of all; default: as few as have room for the ranks");
  auto* strong = command->add_flag_callback(
      "--strong", [&options] { options.mode = Mode::strong; },
      "the deck's global batch on any number of ranks (default)");
  command
      ->add_flag_callback(
          "--weak", [&options] { options.mode = Mode::weak; },
          "the deck's batch on the fewest ranks, and the same share of each on more")
      ->excludes(strong);
  count("--repeat", options.repeats, "how often each point is measured", 1);
  count("--steps", options.steps, "steps that are measured at each point", 1);
  count("--warmup", options.warmup, "steps before them that are left out", 0);
  count("--threads", options.threads,
        "cores of each rank; 0: the deck's run.threads, else those Slurm gave it, else 1", 0);
  command->add_option("--limit", options.limit, "a point that takes longer has failed")
      ->check(lockstep::number_within(1, a_week_s))
      ->type_name("SECONDS")
      ->capture_default_str();
  command->add_flag("--oversubscribe", options.oversubscribe,
                    "measure more ranks than this machine has cores for, and mark them");
  command->add_flag("!--no-benchmarks", options.benchmarks,
                    "leave collectives, memory and products of the machine out");
  command->add_option("--program", options.program, "default: the bundled one for the deck");
  command->add_option("--members", options.members,
                      "file of lines HOST SLOTS; default: the Slurm allocation, else this machine");
  command->add_option("--launcher", options.launcher,
                      "default: srun in a Slurm allocation, else mpiexec (MPICH's) with -bind-to");
  command->add_flag("--dry-run", options.dry_run, "print the commands of all points");
  command
      ->add_option("--script", options.script, "print a job script of the study for a batch system")
      ->check(CLI::IsMember({"slurm", "pbs", "flux"}));
  sizes("--predict", options.predict,
        "numbers of ranks to predict by a model of the machine and the deck: 64,512,4096");
  sizes("--fit", options.fit,
        "measured numbers of ranks to predict from; the others are held out (default: all with "
        "cores of their own)");
  count("--ranks-a-node", options.ranks_a_node,
        "ranks on a node of predicted sizes; 0: as many as a measured node has room for", 0);
  command
      ->add_option("--network", options.network,
                   "links between the nodes of predicted sizes, instead of the measured ones")
      ->delimiter(',')
      ->expected(2)
      ->check(lockstep::number_within(1e-6, 1e9))
      ->type_name("LATENCY_US,GB_PER_S");
  command->add_flag("--try-best", options.try_best,
                    "also measure the change of the deck that is predicted to help most");
  auto* compare =
      command
          ->add_option("--compare", options.compare, "two studies: folders, or their scaling.json")
          ->expected(2);
  command
      ->add_option("--across", options.across,
                   "of two studies this may differ, and is what the ratio is of")
      ->check(CLI::IsMember({"deck", "version", "machine"}))
      ->needs(compare);
}

void add_sweep(CLI::App* command, lockstep::sweep::Options& options) {
  constexpr int most_ranks = 1 << 20;
  const auto assignments = [&](const char* name, auto& value, const char* help) {
    command->add_option(name, value, help)
        ->expected(1)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
        ->allow_extra_args(false);
  };
  const auto count = [&](const char* name, int& value, const char* help, int least, int most) {
    return command->add_option(name, value, help)->check(CLI::Range(least, most));
  };
  command
      ->add_option("DECK", options.deck, "a deck of classify, regress or gpt; with --program any")
      ->required();
  assignments("--set", options.overrides, "override a key for all trials: table.key=value");
  command
      ->add_option("-o,--output", options.output,
                   "folder of the sweep: a new one, or one to continue")
      ->required();
  assignments("--grid", options.grid,
              "values of a key: table.key=value,value,...; several: every combination");
  assignments("--random", options.random,
              "a key's values at random: table.key=log:LOW:HIGH, uniform:LOW:HIGH or int:LOW:HIGH");
  count("--trials", options.draws, "draws of --random for each combination of the grid", 1, 10'000);
  command->add_option("--seed", options.seed, "seed of the draws")
      ->check(lockstep::seed_of_64_bits())
      ->capture_default_str();
  command->add_option("--metric", options.metric,
                      "field of summary.json; default: checkpoint.best, else the loss, of the "
                      "validation set if there is one, else of the test set");
  command->add_option("--mode", options.mode, "default: by the metric")
      ->check(CLI::IsMember({"min", "max"}));
  auto* halving = command->add_option(
      "--halving", options.halving,
      "successive halving: epochs:N or steps:N of each trial in the first rung");
  count("--eta", options.eta,
        "one in N trials continues to the next rung, with N times the training", 2, 1000)
      ->capture_default_str()
      ->needs(halving);
  count("--ranks-per-trial", options.ranks, "ranks of each trial", 1, most_ranks)
      ->capture_default_str();
  count("--parallel", options.parallel, "trials at a time; default: as many as have room", 1,
        most_ranks);
  count("--threads", options.threads,
        "cores of each rank; default: the deck's run.threads, else those Slurm gave it, else 1", 1,
        1024);
  command->add_flag("--oversubscribe", options.oversubscribe,
                    "trials may share the cores of this machine");
  command->add_option("--program", options.program, "default: the bundled one for the deck");
  command->add_option("--members", options.members,
                      "file of lines HOST SLOTS; default: the Slurm allocation, else this machine");
  command->add_option("--launcher", options.launcher,
                      "default: srun in a Slurm allocation, else mpiexec (MPICH's)");
  command->add_flag("--dry-run", options.dry_run, "print the commands of all trials");
  count("--only", options.only, "run this trial alone, counted from 0, as tasks of --script do", 0,
        10'000);
  command
      ->add_option("--script", options.script,
                   "print a job script: an array job with a trial a task; with --halving one job")
      ->check(CLI::IsMember({"slurm"}));
  command->footer(
      "Examples:\n"
      "  lockstep sweep DECK --grid optimizer.lr=0.1,0.01 --grid train.batch_size=64,128 -o DIR\n"
      "  lockstep sweep DECK --random optimizer.lr=log:1e-4:1e-1 --trials 20 --seed 1 -o DIR\n"
      "  lockstep sweep DECK --random optimizer.lr=log:1e-4:1e-1 --trials 27 --halving epochs:1 "
      "-o DIR\n"
      "  lockstep sweep DECK --grid 'optimizer.kind=\"sgd\",\"adam\"' --ranks-per-trial 2 "
      "--parallel 4 -o DIR\n"
      "  lockstep sweep DECK --grid optimizer.lr=0.1,0.01 -o DIR --script slurm >sweep.sbatch");
}

}  // namespace

int main(int argc, char** argv) {
  namespace utility = lockstep::utility;
  using lockstep::ExitCode;
  CLI::App cli(
      "Run trained networks; inspect the decks, models, checkpoints and launch of a Lockstep job. "
      "A program with a task of its own inspects its decks itself: PROGRAM DECK --describe, "
      "--doctor or --dry-run.",
      "lockstep");
  cli.set_version_flag("--version", fmt::format("lockstep {}", lockstep::version()));
  cli.require_subcommand(1);
  std::vector<std::string> files, overrides;
  std::function<ExitCode()> action;

  const auto add = [&](CLI::App* parent, const char* name, const char* help,
                       const std::function<ExitCode()>& what) {
    return parent->add_subcommand(name, help)->callback([&action, what] { action = what; });
  };
  const auto takes_overrides = [](CLI::App* command, std::vector<std::string>& into) {
    command->add_option("--set", into, "override a key: table.key=value")
        ->expected(1)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
        ->allow_extra_args(false);
  };
  const auto takes_deck = [&](CLI::App* command) {
    command->add_option("FILE", files, "a deck of classify, regress or gpt")
        ->required()
        ->expected(1);
    takes_overrides(command, overrides);
  };
  const auto takes_checkpoints = [&](CLI::App* command) {
    command->add_option("FILE", files, "checkpoints")->required();
  };

  utility::DoctorOptions examination;
  auto* doctor = add(&cli, "doctor", "check the launch: cores, memory and libraries of each rank",
                     [&] { return utility::doctor(argc, argv, examination); });
  doctor->add_option("DECK", examination.deck, "a deck of classify, regress or gpt to check too");
  takes_overrides(doctor, examination.overrides);
  doctor->add_flag("--json", examination.json, "one JSON object instead of text");

  utility::PredictOptions prediction;
  auto* predict = add(&cli, "predict", "run a trained network on the samples in a file",
                      [&] { return utility::predict(argc, argv, prediction); });
  predict->add_option("RUN", prediction.source, "a run folder, or a checkpoint")->required();
  predict->add_option("--input", prediction.input, "samples: FILE or FILE:NAME")->required();
  predict->add_option("--output", prediction.output, "a new file: FILE or FILE:NAME")->required();
  predict->add_flag("--allow-external", prediction.allow_external,
                    "an HDF5 input may refer to samples in other files: data.allow_external");

  utility::EvaluateOptions evaluation;
  auto* evaluate =
      add(&cli, "evaluate", "compute loss and metrics of a trained network on other data",
          [&] { return utility::evaluate(argc, argv, evaluation); });
  evaluate->add_option("RUN", evaluation.source, "a run folder, or a checkpoint")->required();
  evaluate->add_option("--data", evaluation.data,
                       "data of the deck's kind, a file or a folder; default: the run's test set");
  takes_overrides(evaluate, evaluation.overrides);
  evaluate->add_flag("--json", evaluation.json, "one JSON object instead of text");

  auto* deck = cli.add_subcommand("deck", "make and check input decks")->require_subcommand(1);
  takes_deck(add(deck, "check", "check a deck: print all its settings, or its errors",
                 [&] { return utility::check_deck(files.front(), overrides); }));
  add(deck, "reference", "print every table and key, in Markdown", utility::print_deck_reference);
  utility::ChosenKinds kinds;
  auto* new_deck = add(deck, "new", "print a commented starting deck",
                       [&] { return utility::print_new_deck(files.front(), kinds); });
  new_deck
      ->add_option("PROGRAM", files,
                   "classify, regress, fields (regress from field to field) or gpt")
      ->required()
      ->expected(1)
      ->check(CLI::IsMember({"classify", "regress", "fields", "gpt"}));
  for (const char* table : {"model", "data", "optimizer", "schedule", "loss"}) {
    new_deck->add_option_function<std::string>(
        fmt::format("--{}", table),
        [&kinds, table](const std::string& kind) { kinds.emplace_back(table, kind); },
        fmt::format("{}.kind of the deck, instead of the program's default", table));
  }

  auto* model = cli.add_subcommand("model", "inspect networks")->require_subcommand(1);
  std::string mesh;
  int ranks_per_node = 0;
  auto* describe =
      add(model, "describe",
          "print a deck's layers: shapes, parameters, FLOPs, memory; and its mesh", [&] {
            return mesh.empty()
                       ? utility::describe_model(files.front(), overrides)
                       : utility::describe_mesh(files.front(), overrides, mesh, ranks_per_node);
          });
  takes_deck(describe);
  auto* of_mesh =
      describe->add_option("--mesh", mesh,
                           "print memory and traffic of each rank of this mesh, instead "
                           "of the deck's: pp, dp, fsdp, cp, tp with sizes, "
                           "as in dp=2,tp=4");
  describe->add_option("--ranks-per-node", ranks_per_node, "with --mesh: to tell links apart")
      ->needs(of_mesh)
      ->check(lockstep::number_within(1, std::numeric_limits<int>::max()));

  auto* checkpoint =
      cli.add_subcommand("checkpoint", "inspect, compare and convert checkpoint files")
          ->require_subcommand(1);
  takes_checkpoints(add(checkpoint, "inspect", "print a checkpoint's contents and origin",
                        [&] { return utility::inspect_checkpoints(files); }));
  takes_checkpoints(add(checkpoint, "verify",
                        "compare every byte with its checksum; exit 4 if one is wrong",
                        [&] { return utility::verify_checkpoints(files); }));
  double tolerance = 0;
  auto* diff =
      add(checkpoint, "diff", "print the tensors that differ, and by how much; exit 1 if any does",
          [&] { return utility::compare(files.at(0), files.at(1), tolerance); });
  diff->add_option("FILE", files, "two checkpoints or files of weights")->required()->expected(2);
  diff->add_option("--tolerance", tolerance,
                   "largest difference of elements that count as equal (0: same bits)")
      ->check(lockstep::number_within(0, std::numeric_limits<double>::infinity()));
  add(checkpoint, "latest", "print the newest intact checkpoint of a run; exit 4 if there is none",
      [&] { return utility::print_latest(files.front()); })
      ->add_option("DIR", files, "a run folder or a folder of checkpoints")
      ->required()
      ->expected(1);
  std::string output, format, deck_of_weights;
  bool hugging_face = false;
  auto* export_command =
      add(checkpoint, "export", "write a checkpoint's weights for other programs",
          [&] { return utility::export_weights(files.front(), output, format, hugging_face); });
  export_command->add_option("FILE", files, "a checkpoint")->required()->expected(1);
  export_command->add_option("-o,--output", output, "the new file")->required();
  export_command->add_option("--format", format, "default: by the ending of the output's name")
      ->check(CLI::IsMember({"h5", "safetensors"}));
  export_command->add_flag("--hugging-face", hugging_face,
                           "gpt only: names and layouts of Hugging Face's GPT2LMHeadModel");
  auto* import_command =
      add(checkpoint, "import",
          "make a checkpoint from other programs' weights, without optimizer state",
          [&] { return utility::import_weights(files.front(), output, deck_of_weights); });
  import_command->add_option("FILE", files, "safetensors, or HDF5 with one data set per tensor")
      ->required()
      ->expected(1);
  import_command->add_option("-o,--output", output, "the new checkpoint, .h5")->required();
  import_command->add_option(
      "--deck", deck_of_weights,
      "deck of the model; its data give shapes and units, so that the checkpoint can predict");

  bool flight_json = false;
  auto* flight =
      add(&cli, "flight", "print each rank's last calls, and the ranks that block the run",
          [&] { return utility::show_flight(files.front(), flight_json); });
  flight->add_option("DIR", files, "a run folder or a folder of rings")->required()->expected(1);
  flight->add_flag("--json", flight_json, "one JSON object instead of text");

  std::string lines_of, csv;
  auto* to_csv = add(&cli, "export", "write the metrics of a run as CSV",
                     [&] { return utility::export_csv(lines_of, csv); });
  to_csv->add_option("RUN", lines_of, "a run folder, or a file of JSON lines such as elastic.jsonl")
      ->required();
  to_csv->add_option("-o,--output", csv, "file for the CSV; default: stdout");

  lockstep::elastic::Options supervision;
  add_elastic(add(&cli, "elastic",
                  "start a training, and restart it when ranks or nodes fail or join: lockstep "
                  "elastic --max 4 -- classify DECK",
                  [&] { return utility::supervise(supervision); }),
              supervision);

  utility::BenchOptions machine;
  auto* bench =
      add(&cli, "bench",
          "how fast this machine is for all ranks together: collectives, memory, products",
          [&] { return utility::bench(argc, argv, machine); });
  bench->add_option("--seconds", machine.seconds, "about so long in all")
      ->check(lockstep::number_within(0, 3600))
      ->capture_default_str();
  bench->add_option("-o,--output", machine.output, "file for the JSON; default: stdout");

  lockstep::scaling::Options study;
  study.arguments.assign(argv, argv + argc);
  add_scaling(add(&cli, "scaling",
                  "measure a deck on several numbers of ranks: lockstep scaling DECK --ranks 1,2,4 "
                  "--output DIR",
                  [&] { return utility::scale(study); }),
              study);

  lockstep::sweep::Options settings;
  settings.arguments.assign(argv, argv + argc);
  add_sweep(add(&cli, "sweep",
                "train a deck with many settings: lockstep sweep DECK --grid "
                "optimizer.lr=0.1,0.01 --output DIR",
                [&] { return utility::sweep(settings); }),
            settings);

  lockstep::report::Options pages;
  auto* report = add(&cli, "report", "write a page of curves and tables about runs",
                     [&] { return utility::report(pages); });
  report->add_option("RUN", pages.paths, "run folders, and folders of scaling studies")->required();
  report->add_option("-o,--output", pages.output, "the page, one file")->capture_default_str();

  lockstep::watch::Options sight;
  auto* watch =
      add(&cli, "watch", "show a run in the terminal", [&] { return utility::watch(sight); });
  watch->add_option("RUN", sight.run, "a run folder, which may not exist yet")->required();
  watch->add_option("--every", sight.every, "seconds between updates")
      ->check(lockstep::number_within(0.1, 86'400))
      ->capture_default_str();
  watch->add_flag("--once", sight.once, "show the run as it is, and end");

  return lockstep::run_tool(cli, argc, argv, [&] { return action(); });
}
