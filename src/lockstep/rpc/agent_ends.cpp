// How the agents of all ranks come to rest together, or one leaves.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <thread>
#include <utility>

#include <lockstep/base/log.hpp>
#include <lockstep/base/make_room.hpp>
#include <lockstep/base/process_state.hpp>
#include <lockstep/comm/call_label.hpp>
#include <lockstep/rpc/agent.hpp>
#include <lockstep/rpc/references.hpp>

namespace lockstep::rpc {
namespace {

constexpr std::chrono::seconds for_calls_in_progress{5};
// How long who waits for the others stays awake, and how long it sleeps at a time after that: some
// wait there for as long as they serve.
constexpr std::chrono::milliseconds awake_at_an_end{1}, asleep_at_an_end{1};
constexpr std::chrono::seconds stopped_are_named_each{3};
// Ranks that have come answer each other within this.
constexpr std::chrono::seconds for_a_round{1};
// How often it asks the others whether they work, where its time is limited.
constexpr std::chrono::milliseconds shortest_between_questions{20},
    longest_between_questions{10'000};

}  // namespace

WorkDone Agent::work_done() const {
  return {.messages = static_cast<std::uint64_t>(sent_.load() + handled_.load()),
          .is_busy = calls_.open() > 0 || references_->counts().in_the_making > 0};
}

bool Agent::is_overdue() const {
  const auto limit = options_.shutdown_timeout;
  return limit.count() > 0 && Clock::now() - watch_.last_work() > bounded(limit);
}

void Agent::ask_who_works() {
  watch_.heard(id_, work_done());
  for (const WorkerInfo& worker : workers_) {
    if (worker.id != id_) send_notice(Kind::ask, worker.id);
  }
}

// Of this machine; one worker speaks, the first that is not stopped itself.
void Agent::name_stopped(std::set<int>& known) const {
  int speaks = -1;
  std::map<int, ProcessState> stopped;
  for (const WorkerInfo& worker : workers_) {
    const Station& station = stations_[static_cast<std::size_t>(worker.id)];
    if (station.host != stations_[static_cast<std::size_t>(id_)].host) continue;
    const ProcessState state = process_state(station.pid);
    if (!can_run(state)) {
      stopped[worker.id] = state;
    } else if (speaks < 0) {
      speaks = worker.id;
      if (speaks != id_) return;
    }
  }
  for (const auto& [id, state] : stopped) {
    if (known.contains(id)) continue;
    const Station& station = stations_[static_cast<std::size_t>(id)];
    log(LogLevel::warning,
        fmt::format("{}: rpc::shutdown waits for worker {} (rank {}): its process {} on node {} {}",
                    speaker(), workers_[static_cast<std::size_t>(id)].name, id, station.pid,
                    station.host, words(state)));
  }
  known.clear();
  for (const auto& [id, state] : stopped) known.insert(id);
}

// Calls that come from calls: the sums of what was sent and of what is over must be equal, and the
// same as the last time, since the ranks do not count at one moment.
bool Agent::all_at_rest(std::vector<std::int64_t>& before, Clock::time_point shutdown_began) {
  const ReferenceCounts references = references_->counts();
  const auto mine = Tensor::from(
      std::vector<std::int64_t>{sent_.load() + watch_.sent(), handled_.load() + watch_.handled(),
                                static_cast<std::int64_t>(calls_.open()), references.delayed,
                                refused_.load(), references.in_the_making},
      {6});
  // The work is on its way while calls go on.
  const CallLabel label("rpc shutdown");
  Work sum = answers_->all_reduce(mine, ReduceOp::sum);
  const auto begin = Clock::now();
  std::set<int> stopped;
  auto looked = begin, served = begin, asked = begin;
  const auto between_questions =
      std::clamp<Clock::duration>(bounded(options_.shutdown_timeout) / 4,
                                  shortest_between_questions, longest_between_questions);
  for (;;) {  // once at least: a lone rank's sum is there at once
    if (has_threads_) {
      receive_answers_once();
    } else if (step()) {
      served = Clock::now();
    }
    expire_overdue();
    if (sum.test()) break;
    if (options_.shutdown_timeout.count() > 0 && Clock::now() - asked > between_questions) {
      asked = Clock::now();
      ask_who_works();
    }
    if (is_overdue() && Clock::now() - begin > for_a_round) {
      const std::string who = sum.awaited();
      throw TimeoutError(fmt::format("{}: rpc::shutdown: after {:.1f} s {}", speaker(),
                                     seconds_since(shutdown_began),
                                     who.empty() ? "not every rank has called it" : who));
    }
    if (Clock::now() - looked > stopped_are_named_each) {
      looked = Clock::now();
      name_stopped(stopped);
    }
    if (has_threads_ && Clock::now() - begin > awake_at_an_end) {
      std::this_thread::sleep_for(asleep_at_an_end);
    } else {
      make_room(Clock::now() - served);
    }
  }
  const auto total = mine.to_vector<std::int64_t>();
  // What was refused may be none of ours, and so never have been counted as sent.
  const bool all_over = total[0] <= total[1] && total[1] <= total[0] + total[4];
  const bool at_rest = total == before && all_over && total[2] == 0 && total[3] == 0;
  if (total != before || total[2] > 0 || total[5] > 0) watch_.start();
  before = total;
  return at_rest;
}

void Agent::come_to_rest() {
  std::vector<std::int64_t> before;
  const auto begin = Clock::now();
  watch_.start();
  while (!all_at_rest(before, begin)) {
    expect_open();
    const bool some = before[0] != before[1] || before[2] != 0 || before[3] != 0;
    if (some && is_overdue()) {
      throw TimeoutError(fmt::format(
          "{}: rpc::shutdown: after {:.1f} s functions are still being executed somewhere whose "
          "callers wait no more ({} messages sent, {} handled, {} calls not answered)",
          speaker(), seconds_since(begin), before[0], before[1], before[2]));
    }
    if (Clock::now() - begin > std::chrono::milliseconds(5)) {
      std::this_thread::sleep_for(std::chrono::microseconds(500));
    }
  }
}

ShutdownReport Agent::shut_down(bool graceful) {
  if (Crew::is_member()) {
    throw Error("rpc::shutdown was called by a function that is executed for another worker");
  }
  ShutdownReport report;
  if (graceful) {
    expect_open();
    come_to_rest();
    report.taken_back = references_->held();
    come_to_rest();  // all have counted
    references_->take_all_back();
    come_to_rest();
    report.left = references_->left();
    if (report.taken_back > 0 || !report.left.empty()) {
      std::string text = fmt::format("{}: rpc::shutdown took {} remote references back", speaker(),
                                     report.taken_back);
      for (const std::string& left : report.left) text += "; left: " + left;
      log(LogLevel::warning, text);
    }
  }
  {
    const std::lock_guard lock(reason_mutex_);
    if (open_.exchange(false)) reason_ = "it was shut down";
  }
  report.unanswered =
      fail_all(std::make_exception_ptr(CommError(speaker() + ": the worker was shut down")));
  references_->clear();
  const bool ended = crew_.stop(for_calls_in_progress);
  {
    const std::lock_guard lock(answerer_mutex_);
    answerer_stops_ = true;
  }
  answerer_called_.notify_all();
  if (answerer_.joinable()) answerer_.join();
  Work answer;
  if (ended) {
    receive_nudges();
    request_work_.cancel();
    drop_arriving();
    {
      const std::lock_guard lock(answer_posted_lock_);
      answer = answer_work_;
    }
    answer.cancel();
  }
  if (graceful) {
    static_cast<void>(request_work_.wait_for(std::chrono::seconds(1)));
    static_cast<void>(answer.wait_for(std::chrono::seconds(1)));
    requests_->close();
    answers_->close();
  }
  return report;
}

// Tensors that belong to an answer and have not come never will.
void Agent::drop_arriving() noexcept {
  const std::unique_lock role(answers_lock_, std::try_to_lock);
  if (!role) return;
  for (Arriving& one : arriving_) {
    for (Work& work : one.works) work.cancel();
  }
  arriving_.clear();
}

// The group could not be closed while one is on its way.
void Agent::receive_nudges() {
  const auto begin = Clock::now();
  try {
    while (nudges_.load() > 0 && Clock::now() - begin < for_calls_in_progress) {
      if (Request* late = receive(std::chrono::milliseconds(1), false)) execute(late);
    }
  } catch (const CommError&) {  // NOLINT(bugprone-empty-catch): the group has failed before
  }
}

Agent::~Agent() = default;

}  // namespace lockstep::rpc
