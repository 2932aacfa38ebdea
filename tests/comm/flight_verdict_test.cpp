// Exact verdicts on made-up rings.
#include <gtest/gtest.h>
#include <lockstep/comm/flight/verdict.hpp>

namespace lockstep {
namespace {

using State = FlightCall::State;

constexpr double now = 1000.0;

FlightCall call(std::uint64_t sequence, const std::string& what, State state, double entered_s) {
  return {.what = what,
          .sequence = sequence,
          .fingerprint = std::hash<std::string>()(what.substr(0, what.find('#'))),
          .state = state,
          .entered_s = entered_s,
          .completed_s = state == State::completed ? entered_s + 1 : 0};
}
FlightCall all_reduce(std::uint64_t sequence, State state, double entered_s) {
  return call(sequence, "all_reduce(sum) #" + std::to_string(sequence) + " of f32[8] (32 B)", state,
              entered_s);
}

/// A rank of `size` whose world group has these calls.
FlightRing ring(int rank, int size, std::vector<FlightCall> calls) {
  FlightGroupView world{.number = 0, .members_text = "", .members = {}, .entered = 0, .calls = {}};
  world.members_text = "0-" + std::to_string(size - 1);
  for (int r = 0; r < size; ++r) world.members.push_back(r);
  for (const FlightCall& c : calls) {
    if (!c.is_message) world.entered = c.sequence;
  }
  world.calls = std::move(calls);
  return {.file = {},
          .job = 1,
          .rank = rank,
          .size = size,
          .pid = 4700 + rank,
          .host = "n012",
          .start_s = 0,
          .observed = ProcessState::running,
          .observed_s = now,
          .last_words = "",
          .groups = {world}};
}

TEST(Verdict, NamesTheRankMissingFromACollective) {
  std::vector<FlightRing> rings;
  for (int r = 0; r < 8; ++r) {
    std::vector<FlightCall> calls{all_reduce(41, State::completed, 398)};
    if (r != 3) calls.push_back(all_reduce(42, State::entered, 400 + r));
    rings.push_back(ring(r, 8, calls));
  }
  rings[3].observed = ProcessState::stopped;
  const FlightVerdict verdict = flight_verdict(rings);
  EXPECT_EQ(
      verdict.text,
      "rank 3 has not entered all_reduce(sum) #42 of f32[8] (32 B); ranks 0-2, 4-7 wait there "
      "since 600.0 s; rank 3's last operation was all_reduce(sum) #41 of f32[8] (32 B), "
      "completed 601.0 s ago; its process 4703 on node n012 is stopped (state T)");
  EXPECT_EQ(verdict.ranks, std::vector<int>{3});
}

TEST(Verdict, ComparesSequenceNumbersNotRecords) {
  // Rank 0 has sent and received a lot; rank 1 has one record, of a later collective.
  FlightRing busy = ring(0, 2, {all_reduce(5, State::entered, 990)});
  FlightCall message = call(1, "send(to rank 1, tag 0) #1", State::completed, 10);
  message.is_message = true;
  message.peer = 1;
  auto& calls = busy.groups[0].calls;
  calls.insert(calls.begin(), 100, message);
  const std::vector<FlightRing> rings{busy, ring(1, 2, {all_reduce(4, State::completed, 900)})};
  EXPECT_EQ(flight_verdict(rings).ranks, std::vector<int>{1});
}

TEST(Verdict, BlamesNoRankForAServingReceive) {
  FlightCall serving = call(1, "recv(from any rank, tag 0) #1 (serving)", State::entered, 1);
  serving.is_message = serving.serves = true;
  FlightRing one = ring(0, 2, {all_reduce(5, State::completed, 900), serving});
  FlightRing other = ring(1, 2, {all_reduce(5, State::completed, 900), serving});
  EXPECT_EQ(flight_verdict(std::vector{one, other}).text,
            "no rank waits for another: every operation that was entered has completed");
  // Ranks that serve do not count as waiting either: the ranks that have not entered the collective
  // are to blame.
  one.groups[0].calls.push_back(all_reduce(6, State::entered, 990));
  one.groups[0].entered = 6;
  EXPECT_EQ(flight_verdict(std::vector{one, other}).ranks, std::vector<int>{1});
}

TEST(Verdict, OfDifferentCallsNamesTheFewerFirst) {
  std::vector<FlightRing> rings;
  for (int r = 0; r < 4; ++r) rings.push_back(ring(r, 4, {all_reduce(7, State::entered, 999)}));
  rings[2] = ring(2, 4, {call(7, "broadcast(root 0) #7 of f32[8] (32 B)", State::entered, 999)});
  const FlightVerdict verdict = flight_verdict(rings);
  EXPECT_EQ(verdict.text,
            "rank 2 called broadcast(root 0) #7 of f32[8] (32 B); ranks 0-1, 3 called "
            "all_reduce(sum) #7 of f32[8] (32 B): all ranks must make the same calls in the same "
            "order, with equal shapes, dtypes, roots and reductions");
  EXPECT_EQ(verdict.ranks, std::vector<int>{2});
}

TEST(Verdict, BlamesTheRankThatStoppedInsideACollectiveItHadEntered) {
  // All are in #8, which needs rank 1's part; the others have started #9 too.
  std::vector<FlightRing> rings;
  for (int r = 0; r < 3; ++r) rings.push_back(ring(r, 3, {all_reduce(8, State::agreed, 990)}));
  rings[1].observed = ProcessState::stopped;
  FlightVerdict verdict = flight_verdict(rings);
  EXPECT_EQ(verdict.ranks, std::vector<int>{1});
  EXPECT_TRUE(
      verdict.text.starts_with("every rank has entered all_reduce(sum) #8 of f32[8] (32 B), "
                               "but ranks 0-2 have not completed it since 10.0 s"))
      << verdict.text;
  for (const int r : {0, 2}) {
    rings[static_cast<std::size_t>(r)] =
        ring(r, 3, {all_reduce(8, State::agreed, 990), all_reduce(9, State::entered, 991)});
  }
  verdict = flight_verdict(rings);
  EXPECT_EQ(verdict.ranks, std::vector<int>{1});
  EXPECT_TRUE(verdict.text.starts_with("rank 1 has not entered all_reduce(sum) #9"))
      << verdict.text;
}

TEST(Verdict, FollowsTheChainOfGroupsToTheRankThatDoesNotWait) {
  // Rank 0 waits in the world for rank 1, which waits in a group with rank 2, which computes.
  std::vector<FlightRing> rings{ring(0, 3, {all_reduce(3, State::entered, 900)}),
                                ring(1, 3, {all_reduce(2, State::completed, 800)}),
                                ring(2, 3, {all_reduce(2, State::completed, 800)})};
  FlightGroupView pair{
      .number = 1, .members_text = "1-2", .members = {1, 2}, .entered = 0, .calls = {}};
  rings[2].groups.push_back(pair);
  pair.entered = 1;
  pair.calls = {call(1, "barrier #1", State::entered, 950)};
  rings[1].groups.push_back(pair);
  const FlightVerdict verdict = flight_verdict(rings);
  EXPECT_EQ(verdict.ranks, std::vector<int>{2});
  EXPECT_TRUE(verdict.text.starts_with(
      "rank 2 has not entered barrier #1 of group 1 (ranks 1-2); rank 1 waits there"))
      << verdict.text;
  for (const int rank : {1, 2}) rings[static_cast<std::size_t>(rank)].groups.back().name = "tp";
  const FlightVerdict named = flight_verdict(rings);
  EXPECT_TRUE(named.text.starts_with("rank 2 has not entered barrier #1 of group tp (ranks 1-2)"))
      << named.text;
}

TEST(Verdict, OfAMessageThatIsNotSentNamesTheSender) {
  FlightCall receive = call(1, "recv(from rank 1, tag 7) #1 of f32[2] (8 B)", State::entered, 998);
  receive.is_message = true;
  receive.peer = 1;
  const std::vector<FlightRing> rings{ring(0, 2, {receive}), ring(1, 2, {})};
  const FlightVerdict verdict = flight_verdict(rings);
  EXPECT_EQ(
      verdict.text,
      "rank 0 waits in recv(from rank 1, tag 7) #1 of f32[2] (8 B) since 2.0 s, which rank 1 "
      "has not matched; rank 1 has called nothing yet; its process 4701 on node n012 is running");
  EXPECT_EQ(verdict.ranks, std::vector<int>{1});
}

TEST(Verdict, AMissingRingIsAFinding) {
  const std::vector<FlightRing> rings{ring(0, 3, {all_reduce(2, State::entered, 999)}),
                                      ring(1, 3, {all_reduce(2, State::entered, 999)})};
  const FlightVerdict verdict = flight_verdict(rings);
  EXPECT_EQ(verdict.ranks, std::vector<int>{2});
  EXPECT_NE(verdict.text.find("no ring of rank 2 was found"), std::string::npos) << verdict.text;
}

TEST(Verdict, ComparesTheRingsOfDeadProcesses) {
  std::vector<FlightRing> rings{ring(0, 2, {all_reduce(5, State::entered, 990)}),
                                ring(1, 2, {all_reduce(4, State::completed, 980)})};
  for (FlightRing& one : rings) {
    one.observed = ProcessState::gone;
    one.observed_s = 0;
  }
  EXPECT_EQ(flight_verdict(rings).text,
            "rank 1 has not entered all_reduce(sum) #5 of f32[8] (32 B); rank 0 waits there; rank "
            "1's last operation was all_reduce(sum) #4 of f32[8] (32 B), completed; its process "
            "4701 was on node n012");
}

TEST(Verdict, ReportsThatNoRankWaits) {
  const std::vector<FlightRing> rings{ring(0, 1, {all_reduce(5, State::completed, 990)})};
  EXPECT_EQ(flight_verdict(rings).text,
            "no rank waits for another: every operation that was entered has completed");
}

}  // namespace
}  // namespace lockstep
