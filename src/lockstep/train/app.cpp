#include <lockstep/train/app.hpp>

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <string_view>

#include <lockstep/base/clock.hpp>
#include <lockstep/base/host.hpp>
#include <lockstep/checkpoint/file/checkpoint_file.hpp>
#include <lockstep/checkpoint/file/metadata.hpp>
#include <lockstep/checkpoint/reader.hpp>
#include <lockstep/comm/mpi/launcher.hpp>
#include <lockstep/comm/nccl_group.hpp>
#include <lockstep/comm/objects.hpp>
#include <lockstep/data/batches/batch_plan.hpp>
#include <lockstep/deck/deck.hpp>
#include <lockstep/io/folder.hpp>
#include <lockstep/nn/module.hpp>
#include <lockstep/tensor/math_libraries.hpp>
#include <lockstep/tensor/storage.hpp>
#include <lockstep/train/command_line.hpp>
#include <lockstep/train/launch/checks.hpp>
#include <lockstep/train/report/console.hpp>
#include <lockstep/train/report/flight_report.hpp>
#include <lockstep/train/report/library_versions.hpp>
#include <lockstep/train/report/metrics.hpp>
#include <lockstep/train/report/report.hpp>
#include <lockstep/train/report/standard_output.hpp>
#include <lockstep/train/report/summary.hpp>
#include <lockstep/train/run/assignment.hpp>
#include <lockstep/train/run/device_choice.hpp>
#include <lockstep/train/run/elastic_report.hpp>
#include <lockstep/train/run/failures.hpp>
#include <lockstep/train/run/init_from.hpp>
#include <lockstep/train/run/memory_limit.hpp>
#include <lockstep/train/run/rank_groups.hpp>
#include <lockstep/train/run/ranks.hpp>
#include <lockstep/train/run/resume.hpp>
#include <lockstep/train/run/run_folder.hpp>
#include <lockstep/train/run/run_plan.hpp>
#include <lockstep/train/run/stop_request.hpp>
#include <lockstep/train/trainer.hpp>
#include <lockstep/train/verbs.hpp>

namespace lockstep::train {
namespace {

namespace fs = std::filesystem;

/// One run, from command line to exit code. Every function is collective; a failure that all ranks
/// share is thrown as an Agreed error.
class Run {
 public:
  /// `run_dir` receives the path of the run folder as soon as it exists.
  Run(std::string name, std::shared_ptr<ProcessGroup> world, Console& console, fs::path& run_dir)
      : name_(std::move(name)), group_(std::move(world)), console_(console), run_dir_(run_dir) {}

  ExitCode operator()(const std::string& description, const TaskFactory& make_task,
                      const std::vector<PartFactory>& make_parts, int argc, char** argv) {
    agree(*group_, [&] {
      line_ = parse_command_line(name_, description, argc, argv);
      refuse_threads_in_several_processes();
    });
    expect_one_verb();
    if (line_.text_only) return print(*group_, *line_.text_only);
    // If its reader goes (`| head`), a command that only prints ends, as usual, but a training goes
    // on.
    if (line_.trains()) std::signal(SIGPIPE, SIG_IGN);
    read_deck(make_task, make_parts);
    if (line_.doctor) return doctor();
    choose_device();
    look_at_launch();
    if (line_.describe) return describe(*group_, *task_, plan_);
    if (line_.dry_run) return dry_run(group_, *task_, plan_, parts_, deck_);
    if (line_.check_gradients) return check_gradients(*group_, *task_, plan_);
    train();
    return finish();
  }

 private:
  /// `mpiexec -n 1 A DECK : -n 1 A DECK --describe` would leave one rank waiting for the others.
  void expect_one_verb() const {
    const auto verbs = all_gather_object(*group_, line_.verb());
    const auto other = std::ranges::find_if(verbs, [&](const auto& v) { return v != verbs[0]; });
    if (other == verbs.end()) return;
    const auto in_words = [](const std::string& verb) {
      return verb.empty() ? "no option that changes the action" : verb;
    };
    throw AgreedError(
        fmt::format("rank 0 was given {}, rank {} {}: give all ranks the same options",
                    in_words(verbs[0]), other - verbs.begin(), in_words(*other)),
        ExitCode::bad_input);
  }

  void refuse_threads_in_several_processes() const {
    if (line_.ranks_as_threads == 0 || line_.text_only || ranks_are_threads()) return;
    throw InputError(fmt::format(
        "--ranks-as-threads {} makes ranks of one process, but {} processes were started: start "
        "{} without mpiexec, or leave out --ranks-as-threads.",
        line_.ranks_as_threads, processes_started(), name_));
  }

  /// It would start this from the beginning each time, and move aside what was trained.
  void expect_deck_known_to_supervisor() const {
    if (!line_.trains() || !std::getenv(ElasticReport::folder_variable)) return;
    throw InputError(fmt::format(
        "lockstep elastic takes {} for a program with a training loop of its own, and would not "
        "resume it: give the deck {} a name that ends in .toml, and leave --dir out.",
        name_, line_.deck));
  }

  [[nodiscard]] bool ranks_are_threads() const {
    return std::string_view(group_->backend()) == "threads";
  }

  void read_deck(const TaskFactory& make_task, const std::vector<PartFactory>& make_parts) {
    agree(*group_, [&] {
      expect_working_directory();
      expect_deck_known_to_supervisor();
      Assignment read = read_assignment(line_.deck, line_.overrides, make_task, make_parts);
      plan_ = std::move(read.plan);
      task_ = std::move(read.task);
      parts_ = std::move(read.parts);
      deck_ = std::move(read.deck);
      deck_hash_ = std::move(read.hash);
    });
    console_.set_level(plan_.log.level);
  }

  /// From here on the group also accepts tensors of the device.
  void choose_device() {
    const DeviceChoice chosen = train::choose_device(*group_, plan_.run);
    plan_.device = chosen.device;
    devices_in_words_ = chosen.in_words;
    group_ = make_group(std::move(group_), plan_.device, plan_.group);
  }

  void look_at_launch() {
    const auto start = Clock::now();
    launch_ = inspect_launch(*group_, deck_hash_, plan_.device);
    const Findings findings = check_launch(launch_);
    if (group_->rank() == 0) {
      log(LogLevel::debug,
          fmt::format("{:.1f} ms to check the launch", seconds_since(start) * 1e3));
    }
    for (const Finding& finding : findings) {
      if (finding.is_error()) throw AgreedError(finding.text(), ExitCode::bad_input);
      if (group_->rank() == 0) log(LogLevel::warning, finding.text());
    }
    threads_ = plan_.run.threads > 0 ? static_cast<int>(plan_.run.threads) : launch_.cores_owned();
    set_math_threads(threads_);
  }

  ExitCode doctor() {
    DeckFacts facts;
    agree(*group_, [&] { facts = facts_of(*task_, plan_, deck_hash_); });
    return train::doctor(*group_, facts, line_.json);
  }

  void warn_of_idle_ranks() const {
    if (group_->rank() != 0) return;
    for (const Finding& finding :
         check_batch_size(plan_.train.batch_size, parts_of_batch(plan_.mesh, group_->size())))
      log(LogLevel::warning, finding.text());
  }

  // Inputs are rounded to f32 before the mean is subtracted.
  void warn_of_lost_digits() const {
    if (group_->rank() != 0) return;
    const DataFacts& facts = task_->data().facts;
    for (std::size_t i = 0; i < facts.mean.size() && i < facts.std.size(); ++i) {
      const double step = std::abs(facts.mean[i]) * std::numeric_limits<float>::epsilon();
      const bool constant =
          facts.std[i] == 1;  // or measured as 1, where precision matters as little
      if (constant || step <= facts.std[i] / 100) continue;
      log(LogLevel::warning,
          fmt::format("{} loses digits: its values lie around {:.6g} with a standard deviation of "
                      "{:.3g}, and are held in f32, whose steps there are {:.3g}. Subtract an "
                      "offset in the data, for example the smallest value.",
                      i < facts.feature_columns.size() ? "column " + facts.feature_columns[i]
                                                       : fmt::format("feature {}", i),
                      facts.mean[i], facts.std[i], step));
      return;
    }
  }

  void warn_of_schedule() const {
    if (group_->rank() != 0) return;
    const TrainOptions& options = plan_.train;
    const BatchPlan batches(task_->data().train->size(), options.batch_size, 1, options.drop_last);
    const std::string why = optim::make_schedule(plan_.schedule, options.epochs, batches.steps())
                                ->why_rate_never_falls();
    if (!why.empty()) log(LogLevel::warning, why);
  }

  void train() {
    agree(*group_, [&] { Trainer::check(*task_, plan_, group_->size(), parts_); });
    warn_of_lost_digits();
    warn_of_schedule();
    warn_of_idle_ranks();
    std::optional<StateDict> weights;  // initial weights; read before an earlier run is moved aside
    const auto read_weights = [&] {
      if (plan_.train.init_from.empty() || weights) return;
      weights = read_init_from(*group_, plan_.train.init_from, *task_);
    };
    if (!line_.resume) read_weights();
    std::vector<fs::path> reads;
    agree(*group_, 0, [&] { reads = files_read_by(line_.deck, deck_); });
    folder_ = std::make_unique<RunFolder>(RunFolder::open(*group_, plan_.run, line_.resume, reads));
    agree(*group_, 0, [&] { note_flight(folder_->path()); });
    run_dir_ = folder_->path();
    libraries_ = library_versions();
    Trainer trainer(group_, *task_, plan_, libraries_, parts_);
    const std::optional<fs::path> from =
        checkpoint_to_resume(*group_, line_, folder_->checkpoints(), [&](const auto& copy) {
          check_same_samples(load_facts(copy), deck_);
          trainer.expect_continues(copy);
        });
    if (!from) read_weights();  // there was nothing to resume
    if (from) {
      const CheckpointContents checkpoint = load(trainer, *from);
      agree(*group_, [&] {
        check_same_samples(checkpoint, deck_);
        trainer.restore(checkpoint);
      });
      warn_if_environment_changed(checkpoint);
    } else if (weights) {
      taken_ = init_from(*group_, *weights, trainer.state_dict());
      weights.reset();
    }
    agree(*group_, 0, [&] {
      folder_->write_in([&] {
        folder_->write("deck.toml",
                       fmt::format("{}{}\n{}", RunFolder::deck_heading, deck_hash_, deck_));
        console_.open_log(folder_->file("log.txt"));
        const fs::path metrics = folder_->file("metrics.jsonl");
        metrics_ = from ? MetricsFile(metrics, metrics_of(*from), trainer.state().step,
                                      trainer.state().epoch)
                        : MetricsFile(metrics);
        if (from) keep_metrics_of_branch(*folder_, *from);
      });
    });
    open_rank_log(trainer);
    if (from && trainer.is_over()) read_figures(trainer);
    write_summary(false);
    announce(trainer, from);
    outcome_ = trainer.run(*folder_, metrics_, console_, deck_, from);
    outcome_from_earlier_epochs();
    keep_figures();
  }

  /// The figures of a finished run stay those that it measured.
  void read_figures(const Trainer& trainer) {
    if (group_->rank() != 0) return;
    measured_before_ = measured_figures(folder_->file("summary.json"), trainer.state().step);
    keep_figures();
  }

  void keep_figures() {
    if (!measured_before_) return;
    outcome_.samples_per_s = measured_before_->samples_per_s;
    outcome_.first_step_s = measured_before_->first_step_s;
  }

  /// The state that this rank needs from the file.
  CheckpointContents load(const Trainer& trainer, const fs::path& from) {
    Manifest manifest;
    try {
      manifest = CheckpointFile(from).manifest();
    } catch (const CheckpointError&) {  // loading reports it, on all ranks
    }
    return load_checkpoint_in_place(*group_, from, trainer.state_dict(),
                                    trainer.slots_to_load(manifest));
  }

  void warn_if_environment_changed(const CheckpointContents& checkpoint) {
    if (group_->rank() != 0) return;
    Metadata now = describe_writer(*group_);
    now.insert(now.end(), libraries_.begin(), libraries_.end());
    const std::string changes = environment_changes(checkpoint.metadata, now);
    if (!changes.empty()) log(LogLevel::warning, changes);
  }

  /// After rank 0 has written into the folder, so that it is there for the others.
  void open_rank_log(const Trainer& trainer) {
    if (!plan_.log.ranks) return;
    console_.open_rank_log(folder_->file("logs"));
    console_.note(fmt::format("rank {} of {} of {} begins at step {}: process {}, {} thread{}",
                              group_->rank(), group_->size(), name_, trainer.state().step,
                              ::getpid(), threads_, threads_ == 1 ? "" : "s"));
  }

  void announce(const Trainer& trainer, const std::optional<fs::path>& from) {
    if (group_->rank() != 0) return;
    console_.say(fmt::format("{}: {} on {} rank{}{}, {} thread{} each, {}; run folder {}", name_,
                             line_.deck, group_->size(), group_->size() == 1 ? "" : "s",
                             ranks_are_threads() ? " in one process" : "", threads_,
                             threads_ == 1 ? "" : "s", fmt::join(launch_.layout.hosts(), " "),
                             folder_->path().string()));
    console_.say(fmt::format("{}; model of {} parameters; {} steps an epoch",
                             samples_in_words(task_->data()), trainer.parameter_count(),
                             trainer.steps_an_epoch()));
    if (!devices_in_words_.empty()) console_.say(devices_in_words_);
    if (taken_)
      console_.say(fmt::format("weights of {}: {}", plan_.train.init_from, taken_->in_words()));
    if (!from) return;
    const std::int64_t again = metrics_.steps_again();
    console_.say(fmt::format(
        "resumed from {} at step {}{}", from->string(), trainer.state().step,
        again > 0 ? fmt::format("; {} step{} or more again", again, again == 1 ? "" : "s") : ""));
    if (trainer.is_over()) console_.say(why_nothing_is_left(trainer));
  }

  [[nodiscard]] std::string why_nothing_is_left(const Trainer& trainer) const {
    const std::int64_t epochs = plan_.train.epochs;
    if (trainer.state().epoch < epochs) {
      return fmt::format(
          "nothing to train: the run was complete after epoch {} of {}. To go on, change what "
          "ended it, as train.early_stop_patience.",
          trainer.state().epoch, epochs);
    }
    return fmt::format("nothing to train: {} done. For more, raise train.epochs.",
                       epochs == 1 ? "the epoch is" : fmt::format("all {} epochs are", epochs));
  }

  /// A run with nothing left to do reports the results of its earlier part.
  void outcome_from_earlier_epochs() {
    if (group_->rank() != 0) return;
    for (const MetricsRow& row : metrics_.rows()) {
      if (row.kind == "epoch") outcome_.train_loss = row.loss;
      if (row.kind != "eval") continue;
      auto& found = row.set == "test" ? outcome_.test : outcome_.validation;
      found = Evaluation{row.loss, row.metrics};
    }
  }

  void write_summary(bool completed) {
    SummaryFacts facts{.app = name_,
                       .deck_hash = deck_hash_,
                       .seed = static_cast<std::int64_t>(plan_.train.seed),
                       .threads = threads_,
                       .wall_s = seconds_since_process_start(),
                       .peak_rss_mib = mib_of_ranks(*group_, peak_resident_bytes()),
                       .libraries = libraries_,
                       .completed = completed};
    if (plan_.device != Device{}) {
      facts.peak_device_mib = mib_of_ranks(*group_, memory_stats(plan_.device).peak_in_use);
    }
    if (measured_before_) facts.wall_s = measured_before_->wall_s;
    agree(*group_, [&] {
      folder_->expect_there();
      if (group_->rank() != 0) return;
      folder_->write_in(
          [&] { folder_->write("summary.json", summary_json(*group_, launch_, outcome_, facts)); });
    });
  }

  ExitCode finish() {
    const bool stopped = outcome_.stopped != StopReason::none;
    agree(*group_, 0, [&] { folder_->write_in([&] { metrics_.flush(); }); });
    write_summary(!stopped);
    group_->close();
    if (group_->rank() == 0) {
      // Follows the last collective call apart from MPI_Finalize, because gnuplot may hang.
      const double limit_s = std::min(20.0, Seconds(plan_.group.timeout).count() / 2);
      const std::string curves = draw_curves(metrics_.rows(), folder_->file("curves.svg"), limit_s);
      console_.say(report_table(metrics_.rows()));
      if (metrics_.epochs_apart() > 1) {
        console_.say(fmt::format("(of {} epochs one, and the last; metrics.jsonl has all)",
                                 metrics_.epochs_apart()));
      }
      const std::string anatomy = anatomy_table(outcome_.times);
      if (!anatomy.empty()) console_.say(anatomy);
      if (outcome_.comm_hook) {
        console_.say(fmt::format("gradients   {}", traffic_in_words(*outcome_.comm_hook)));
      }
      console_.say(fmt::format("curves      {}", curves));
      console_.say(fmt::format("checkpoint  {}", outcome_.checkpoint
                                                     ? outcome_.checkpoint->string()
                                                     : "none (see [checkpoint] in the deck)"));
      if (outcome_.trace) {
        console_.say(fmt::format("trace       {} (open it in https://ui.perfetto.dev)",
                                 outcome_.trace->string()));
      }
      console_.say(fmt::format("run folder  {}", folder_->path().string()));
      if (stopped) {
        console_.say(fmt::format("stopped on request ({}) at step {}; continue with --resume",
                                 words(outcome_.stopped), outcome_.steps));
      }
      if (outcome_.stopped == StopReason::stop_file) folder_->remove_stop_file();
    }
    if (group_->rank() == 0) forget_flight(folder_->path());
    console_.note(fmt::format("this rank ends: {}",
                              stopped ? "stopped on request, all is saved" : "all is done"));
    return stopped ? ExitCode::requeue : ExitCode::done;
  }

  std::string name_;
  std::shared_ptr<ProcessGroup> group_;
  Console& console_;
  fs::path& run_dir_;
  CommandLine line_;
  RunPlan plan_;
  std::string devices_in_words_;
  std::unique_ptr<Task> task_;
  TrainingParts parts_;
  std::string deck_, deck_hash_;
  Launch launch_;
  int threads_ = 1;
  std::vector<std::pair<std::string, std::string>> libraries_;
  std::unique_ptr<RunFolder> folder_;
  std::optional<WeightsTaken> taken_;  ///< with train.init_from
  MetricsFile metrics_;
  Outcome outcome_;
  std::optional<MeasuredFigures> measured_before_;  ///< of a finished run that is resumed; rank 0
};

/// Settings needed before there are ranks: the deck's comm table, for the group in which all ranks
/// read the deck, and the kind of the ranks. Defaults if the deck cannot be read; the error is
/// reported later, by the ranks.
struct Start {
  GroupOptions group;
  int threads = 0;  ///< number of ranks that are threads; 0: ranks are processes
};

Start look_ahead(const std::string& name, int argc, char** argv) {
  Start start;
  try {
    const CommandLine line = parse_command_line(name, "", argc, argv);
    // Refuses --ranks-as-threads in a job of several processes.
    if (processes_started() == 1) start.threads = line.ranks_as_threads;
    if (!line.text_only) {
      Deck deck = Deck::load(line.deck, line.overrides);
      start.group = read_run_plan(deck).group;
    }
  } catch (const Error&) {
  }
  return start;
}

}  // namespace

App::App(std::string name, std::string description, TaskFactory make_task)
    : name_(std::move(name)),
      description_(std::move(description)),
      make_task_(std::move(make_task)) {}

App& App::add_part(PartFactory make_part) {
  make_parts_.push_back(std::move(make_part));
  return *this;
}

int App::run(int argc, char** argv) {
  keep_closed_streams_closed();
  listen_for_stop_requests();
  std::signal(SIGXFSZ, SIG_IGN);  // a file that grows too large is then an error like a full disk
  raise_open_files_limit();
  const Start start = look_ahead(name_, argc, argv);
  try {
    expect_address_space(std::max(1, start.threads));
    if (start.threads == 0) expect_file_size();
  } catch (const Error& error) {
    // There is no console yet. Not fmt::print: if stderr cannot be written, the exit code must
    // tell.
    std::fputs(fmt::format("{}: {}\n", name_, error.what()).c_str(), stderr);
    wait_until_stderr_is_read();
    ask_launcher_to_end_job(error.exit_code());
    _exit(static_cast<int>(error.exit_code()));  // libraries without their threads hang at exit
  }
  const auto one_rank = [&](std::shared_ptr<ProcessGroup> world, Console& console,
                            fs::path& run_dir) {
    return Run(name_, std::move(world), console, run_dir)(description_, make_task_, make_parts_,
                                                          argc, argv);
  };
  const ExitCode code = start.threads > 0
                            ? run_ranks_as_threads(name_, start.threads, start.group, one_rank)
                            : run_ranks_as_processes(name_, start.group, argc, argv, one_rank);
  return static_cast<int>(code);
}

}  // namespace lockstep::train
