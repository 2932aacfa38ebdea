#include <lockstep/train/run/run_saves.hpp>

#include <fmt/format.h>

#include <tuple>
#include <utility>

#include <lockstep/base/log.hpp>
#include <lockstep/checkpoint/folder_of_checkpoints.hpp>
#include <lockstep/comm/objects.hpp>
#include <lockstep/comm/thread_level.hpp>
#include <lockstep/train/run/failures.hpp>

namespace lockstep::train {

namespace fs = std::filesystem;
namespace {

/// Rank 0's findings in the folder.
struct Begun {
  bool in_folder = false;      ///< the checkpoint that the run resumes from
  std::optional<double> best;  ///< value of best.h5

  static auto fields(auto& self) { return std::tie(self.in_folder, self.best); }
};

}  // namespace

RunSaves::RunSaves(ProcessGroup& group, const CheckpointOptions& options, fs::path folder,
                   std::chrono::milliseconds deadline, MayWrite may_write)
    : group_(group),
      options_(options),
      deadline_(deadline),
      may_write_(std::move(may_write)),
      checkpoints_(std::make_shared<RunCheckpoints>(std::move(folder), options)),
      time_is_up_(Tensor::zeros({1}, DType::f64)) {
  if (!options_.async) return;
  if (threads_may_communicate(group_)) {
    async_ = std::make_unique<AsyncCheckpointWriter>(group_, std::chrono::seconds(10),
                                                     options_.compression);
  } else if (group_.rank() == 0) {
    log(LogLevel::info,
        "each step that saves waits until its checkpoint is written: checkpoint.async needs "
        "MPI_THREAD_MULTIPLE, which MPI does not grant");
  }
}

RunSaves::~RunSaves() {
  if (others_do_not_answer()) async_->give_up();
  async_.reset();
  try {
    account();
  } catch (const std::exception&) {  // the run ends for another reason
  }
}

fs::path RunSaves::path_of(std::int64_t step) const {
  return checkpoint_path(checkpoints_->folder(), step);
}

void RunSaves::begin(std::int64_t step, const std::optional<fs::path>& resumed_from,
                     const StateDict& model, const StateDict& optimizer) {
  const auto begin = [&] {
    Begun begun;
    if (group_.rank() == 0) {
      begun.in_folder = checkpoints_->begin(resumed_from);
      begun.best = checkpoints_->best();
    }
    if (async_) async_->reserve(model, optimizer);
    return begun;
  };
  const Begun begun = agree(group_, begin).front();
  saved_step_ = step == 0 || begun.in_folder ? step : -1;
  if (!options_.best.empty()) best_ = begun.best;
}

bool RunSaves::skips(const TrainState& train) {
  if (!async_) return false;
  // Ranks may see a save's end at different times.
  const bool busy = all_reduce_scalar(group_, async_->is_busy() ? 1.0 : 0.0, ReduceOp::max) > 0.0;
  if (!busy) return false;
  const bool may_skip = options_.busy == CheckpointOptions::Busy::skip, best = is_best(train),
             skip = may_skip && !best;
  if (group_.rank() == 0) {
    log(skip ? LogLevel::warning : LogLevel::info,
        fmt::format("step {} {}: {} is still being written ({})", train.step,
                    skip ? "was not saved" : "waits", path_of(step_under_way_).string(),
                    may_skip && best ? "checkpoint.best = \"" + options_.best + "\" is not skipped"
                    : skip           ? "checkpoint.busy = \"skip\""
                                     : "checkpoint.busy = \"wait\""));
  }
  if (skip) {
    due_by_time_ = false;
    last_start_ = Clock::now();
  } else {
    finish();
  }
  return skip;
}

void RunSaves::start(const CheckpointContents& contents, NotFinite not_finite) {
  finish();
  due_by_time_ = false;
  if (std::exchange(asked_, false)) question_.wait();  // written before this save
  last_start_ = Clock::now();
  step_under_way_ = contents.train.step;
  best_before_ = best_;
  if (is_best(contents.train)) best_ = figure_of(options_, contents.train);
  const fs::path path = path_of(step_under_way_);
  const auto published = [checkpoints = checkpoints_, path, is_mine = group_.rank() == 0,
                          train = contents.train](const SaveReport& report) {
    if (is_mine) checkpoints->saved(path, report.not_finite.empty(), train);
  };
  try {
    if (async_) {
      under_way_ = async_->save(group_, path, contents, not_finite, published, may_write_);
      return;
    }
    const SaveReport report =
        CheckpointWriter(options_.compression).save(group_, path, contents, not_finite, may_write_);
    published(report);
    std::promise<SaveReport> done;
    done.set_value(report);
    under_way_ = done.get_future();
    settle();
  } catch (const CheckpointError& error) {
    failed(error.what());
  }
}

bool RunSaves::is_over() const {
  return under_way_.valid() &&
         under_way_.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

void RunSaves::look() {
  account();
  if (options_.every_minutes > 0) ask_the_time();
}

void RunSaves::account() {
  if (is_over()) settle();
}

void RunSaves::ask_the_time() {
  auto& due = *static_cast<double*>(time_is_up_.data());
  if (asked_) {
    question_.wait();
    due_by_time_ = due_by_time_ || due > 0.0;
  }
  if (group_.rank() == 0)
    due = seconds_since(last_start_) >= options_.every_minutes * 60 ? 1.0 : 0.0;
  question_ = group_.broadcast(time_is_up_, 0);
  asked_ = true;
}

bool RunSaves::others_do_not_answer() const {
  // Half of it: the other rank's wait may have begun later.
  return async_ && async_->waits_for_others_since() >= Seconds(deadline_) / 2;
}

void RunSaves::finish() {
  if (!under_way_.valid()) return;
  if (under_way_.wait_for(deadline_) == std::future_status::ready) return settle();
  const std::string late =
      fmt::format("checkpoint {} is not written yet after {:g} s (comm.timeout)",
                  path_of(step_under_way_).string(), Seconds(deadline_).count());
  if (others_do_not_answer()) {
    throw TimeoutError(late + ": another rank does not answer, or its file system hangs");
  }
  throw CheckpointError(late + ": its file system may hang. Earlier checkpoints are unchanged.");
}

void RunSaves::settle() {
  const fs::path path = path_of(step_under_way_);
  try {
    const SaveReport report = under_way_.get();
    last_failure_.clear();
    saved_step_ = step_under_way_;
    log(LogLevel::debug, fmt::format("saved {} ({:.1f} MB in {:.0f} ms; the step waited {:.0f} ms)",
                                     path.string(), static_cast<double>(report.bytes) / 1e6,
                                     report.seconds * 1e3, report.blocked_seconds * 1e3));
    if (report.not_finite.empty()) return;
    best_ = best_before_;  // best.h5 is for finite states only
    if (group_.rank() != 0) return;
    const auto finite = checkpoints_->newest_finite();
    log(LogLevel::warning,
        fmt::format("{} has elements that are not finite in {} (train.on_nan = \"ignore\"); {}",
                    report.not_finite, path.string(),
                    finite ? fmt::format("the newest finite checkpoint, {}, stays beside it",
                                         finite->filename().string())
                           : "no finite checkpoint lies beside it"));
  } catch (const CheckpointError& error) {
    failed(error.what());
  }
}

void RunSaves::failed(const std::string& error) {
  last_failure_ = error;
  best_ = best_before_;
  if (group_.rank() == 0) log(LogLevel::error, fmt::format("{} The run goes on.", error));
}

void RunSaves::close() {
  if (std::exchange(asked_, false)) question_.wait();
  if (async_) async_->close();
}

}  // namespace lockstep::train
