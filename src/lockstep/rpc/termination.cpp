#include <lockstep/rpc/termination.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <thread>
#include <utility>

#include <lockstep/base/log.hpp>
#include <lockstep/base/make_room.hpp>
#include <lockstep/comm/call_label.hpp>

namespace lockstep::rpc {
namespace {

// How long a waiting rank stays awake, and how long it sleeps at a time after that: some ranks wait
// here while they serve.
constexpr std::chrono::milliseconds awake_at_an_end{1}, asleep_at_an_end{1};
constexpr std::chrono::seconds stopped_are_named_each{3};
// Time limit for the ranks in shutdown to answer each other.
constexpr std::chrono::seconds for_a_round{1};
// Interval of questions to the other ranks about their progress, if shutdown has a time limit.
constexpr std::chrono::milliseconds shortest_between_questions{20},
    longest_between_questions{10'000};

}  // namespace

Termination::Termination(const WorkerTable& workers, Transport& transport,
                         const References& references, const Answers& answers,
                         const Availability& availability,
                         std::chrono::milliseconds shutdown_timeout)
    : workers_(workers),
      transport_(transport),
      references_(references),
      answers_(answers),
      availability_(availability),
      shutdown_timeout_(bounded(shutdown_timeout)),
      watch_(workers.size()) {}

WorkDone Termination::work_done() const {
  const RequestCount& count = transport_.count();
  return {.messages = static_cast<std::uint64_t>(count.sent.load() + count.handled.load()),
          .is_busy = answers_.open() > 0 || references_.counts().in_the_making > 0};
}

bool Termination::is_overdue() const {
  return shutdown_timeout_.count() > 0 && Clock::now() - watch_.last_work() > shutdown_timeout_;
}

void Termination::ask_for_progress() {
  watch_.heard(workers_.id(), work_done());
  for (const WorkerInfo& worker : workers_.all()) {
    if (worker.id != workers_.id()) send_notice(Kind::ask, worker.id);
  }
}

void Termination::take(int from, const Head& head) {
  if (head.kind == Kind::ask) {
    send_notice(Kind::tell, from);
  } else {
    watch_.heard(from, {.messages = head.reference, .is_busy = head.fork != 0});
  }
  watch_.count_handled();
}

// A notice may be lost where the group has failed or is shut down.
void Termination::send_notice(Kind kind, int to) noexcept {
  watch_.count_sent(1);
  try {
    OutgoingMessage message(kind, transport_.limits());
    if (kind == Kind::tell) {
      const WorkDone work = work_done();
      message.head().reference = work.messages;
      message.head().fork = work.is_busy ? 1 : 0;
    }
    transport_.send(Channel::requests, message, to, "rpc");
  } catch (const std::exception& error) {
    watch_.count_sent(-1);
    log(LogLevel::debug,
        fmt::format("{}: a notice was not sent: {}", workers_.own_name(), error.what()));
  }
}

void Termination::name_stopped(std::set<int>& known) const {
  const auto stopped = workers_.stopped_here();
  for (const auto& [id, state] : stopped) {
    if (known.contains(id)) continue;
    log(LogLevel::warning, fmt::format("{}: rpc::shutdown waits for worker {} (rank {}): its {} {}",
                                       workers_.own_name(), workers_.name(id), id,
                                       workers_.place_of(id), words(state)));
  }
  known.clear();
  for (const auto& [id, state] : stopped) known.insert(id);
}

// Calls may lead to calls, and ranks do not count at the same moment. So the sums of sent and of
// handled messages must be equal, and equal to those of the previous round.
bool Termination::is_reached(std::vector<std::int64_t>& before, Clock::time_point began,
                             const std::function<bool()>& move_on, bool naps) {
  const ReferenceCounts references = references_.counts();
  const RequestCount& count = transport_.count();
  const auto mine = Tensor::from(
      std::vector<std::int64_t>{count.sent.load() + watch_.sent(),
                                count.handled.load() + watch_.handled(),
                                static_cast<std::int64_t>(answers_.open()), references.delayed,
                                count.refused.load(), references.in_the_making},
      {6});
  // The work is in flight while calls continue.
  const CallLabel label("rpc shutdown");
  Work sum = transport_.group(Channel::answers).all_reduce(mine, ReduceOp::sum);
  const auto begin = Clock::now();
  std::set<int> stopped;
  auto looked = begin, served = begin, asked = begin;
  const auto between_questions = std::clamp<Clock::duration>(
      shutdown_timeout_ / 4, shortest_between_questions, longest_between_questions);
  for (;;) {  // at least once: the sum of a single rank is ready at once
    if (move_on()) served = Clock::now();
    if (sum.test()) break;
    if (asks_ && shutdown_timeout_.count() > 0 && Clock::now() - asked > between_questions) {
      asked = Clock::now();
      ask_for_progress();
    }
    if (is_overdue() && Clock::now() - begin > for_a_round) {
      const std::string who = sum.awaited();
      throw TimeoutError(fmt::format("{}: rpc::shutdown: after {:.1f} s {}", workers_.own_name(),
                                     seconds_since(began),
                                     who.empty() ? "not every rank has called it" : who));
    }
    if (Clock::now() - looked > stopped_are_named_each) {
      looked = Clock::now();
      name_stopped(stopped);
    }
    if (naps && Clock::now() - begin > awake_at_an_end) {
      std::this_thread::sleep_for(asleep_at_an_end);
    } else {
      make_room(Clock::now() - served);
    }
  }
  const auto total = mine.to_vector<std::int64_t>();
  // A refused message may come from outside and so may never have been counted as sent.
  const bool all_over = total[0] <= total[1] && total[1] <= total[0] + total[4];
  const bool at_rest = total == before && all_over && total[2] == 0 && total[3] == 0;
  if (total != before || total[2] > 0 || total[5] > 0) watch_.start();
  before = total;
  return at_rest;
}

void Termination::await(const std::function<bool()>& move_on, bool naps) {
  std::vector<std::int64_t> before;
  const auto begin = Clock::now();
  // The last round that asks may leave questions and answers on their way; rounds that do not ask
  // follow it, until all of these have been received.
  for (const bool asks : {true, false}) {
    asks_ = asks;
    watch_.start();
    while (!is_reached(before, begin, move_on, naps)) {
      availability_.expect_open(workers_.own_name());
      expect_work(before, begin);
      if (Clock::now() - begin > std::chrono::milliseconds(5)) {
        std::this_thread::sleep_for(std::chrono::microseconds(500));
      }
    }
  }
}

void Termination::expect_work(const std::vector<std::int64_t>& total,
                              Clock::time_point began) const {
  const bool some = total[0] != total[1] || total[2] != 0 || total[3] != 0;
  if (!some || !is_overdue()) return;
  throw TimeoutError(fmt::format(
      "{}: rpc::shutdown: after {:.1f} s functions whose callers have stopped waiting still run on "
      "some rank ({} messages sent, {} handled, {} calls not answered)",
      workers_.own_name(), seconds_since(began), total[0], total[1], total[2]));
}

}  // namespace lockstep::rpc
