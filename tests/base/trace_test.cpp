#include <optional>
#include <stdexcept>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <lockstep/base/rank.hpp>
#include <lockstep/base/trace.hpp>

namespace lockstep {
namespace {

const TraceEvent& event_named(const TraceTrack& track, const std::string& name) {
  for (const TraceEvent& event : track.events) {
    if (event.name == name) return event;
  }
  throw std::runtime_error("no event " + name);
}

TEST(Trace, WithoutASessionNothingIsRecorded) {
  EXPECT_FALSE(tracing());
  { const TraceScope scope("test", "before"); }
  const TraceSession session(10);
  EXPECT_TRUE(tracing());
  EXPECT_TRUE(session.tracks().empty());
}

TEST(Trace, ScopeThatBeganBeforeTheSessionIsNotRecorded) {
  std::optional<TraceSession> session;
  {
    const TraceScope scope("test", "half seen");
    session.emplace(10);
  }
  EXPECT_TRUE(session->tracks().empty());
}

TEST(Trace, InnerScopesLieInsideOuterOnes) {
  const TraceSession session(10);
  const std::int64_t before = trace_now();
  {
    const TraceScope outer("test", "outer", "detail", 3);
    const TraceScope inner("test", "inner");
  }
  const auto tracks = session.tracks();
  ASSERT_EQ(tracks.size(), 1U);
  ASSERT_EQ(tracks[0].events.size(), 2U);
  EXPECT_EQ(tracks[0].complete_from_ns, 0);
  const TraceEvent &outer = event_named(tracks[0], "outer"),
                   &inner = event_named(tracks[0], "inner");
  EXPECT_LE(before, outer.start_ns);
  EXPECT_LE(outer.start_ns, inner.start_ns);
  EXPECT_LE(inner.start_ns, inner.end_ns);
  EXPECT_LE(inner.end_ns, outer.end_ns);
  EXPECT_LE(outer.end_ns, trace_now());
  EXPECT_EQ(std::string(outer.category), "test");
  EXPECT_EQ(std::string(outer.detail), "detail");
  EXPECT_EQ(outer.number, 3);
  EXPECT_EQ(inner.detail, nullptr);
}

TEST(Trace, TheNewestEventsAreKept) {
  const TraceSession session(4);
  for (int i = 1; i <= 10; ++i) trace({.start_ns = i, .end_ns = 100 + i, .name = "e", .number = i});
  const auto tracks = session.tracks();
  ASSERT_EQ(tracks.size(), 1U);
  ASSERT_EQ(tracks[0].events.size(), 4U);
  for (int i = 0; i < 4; ++i)
    EXPECT_EQ(tracks[0].events[static_cast<std::size_t>(i)].number, 7 + i);
  EXPECT_EQ(tracks[0].complete_from_ns, 107);
}

TEST(Trace, EachThreadHasATrackWithItsName) {
  const TraceSession session(10);
  { const TraceScope scope("test", "here"); }
  std::thread([] {
    name_thread("helper");
    const TraceScope scope("test", "there");
  }).join();
  const auto tracks = session.tracks();
  ASSERT_EQ(tracks.size(), 2U);
  EXPECT_EQ(std::string(tracks[0].events[0].name), "here");
  EXPECT_EQ(std::string(tracks[1].thread), "helper");
  EXPECT_EQ(std::string(tracks[1].events[0].name), "there");
}

TEST(Trace, RanksThatAreThreadsSeeTheirOwnEventsOnly) {
  const TraceSession session(10);
  { const TraceScope scope("test", "of rank 0"); }
  std::thread([] {
    const ThreadRank rank(1);
    const TraceSession own(99);
    { const TraceScope scope("test", "of rank 1"); }
    trace({.start_ns = 1, .end_ns = 2, .name = "done for rank 0", .flight = 1, .rank = 0});
    const auto tracks = own.tracks();
    ASSERT_EQ(tracks.size(), 1U);
    ASSERT_EQ(tracks[0].events.size(), 1U);
    EXPECT_EQ(std::string(tracks[0].events[0].name), "of rank 1");
  }).join();
  EXPECT_TRUE(tracing());
  const auto tracks = session.tracks();
  ASSERT_EQ(tracks.size(), 2U);
  EXPECT_EQ(std::string(tracks[0].events.at(0).name), "of rank 0");
  EXPECT_EQ(std::string(tracks[1].events.at(0).name), "done for rank 0");
}

TEST(Trace, ASecondSessionBeginsEmpty) {
  {
    const TraceSession first(10);
    const TraceScope scope("test", "first");
  }
  const TraceSession second(10);
  { const TraceScope scope("test", "second"); }
  const auto tracks = second.tracks();
  ASSERT_EQ(tracks.size(), 1U);
  ASSERT_EQ(tracks[0].events.size(), 1U);
  EXPECT_EQ(std::string(tracks[0].events[0].name), "second");
}

TEST(Trace, EqualTextsHaveOneAddress) {
  const std::string text = "conv1";
  const char* const name = trace_name(text);
  EXPECT_NE(name, text.c_str());
  EXPECT_EQ(trace_name("conv1"), name);
  EXPECT_EQ(std::string(name), "conv1");
  EXPECT_NE(trace_name("conv2"), name);
}

TEST(Trace, ManyThreadsMayRecordWhileOneCollects) {
  const TraceSession session(64);
  std::vector<std::jthread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([] {
      for (int i = 0; i < 2000; ++i) const TraceScope scope("test", "work");
    });
  }
  for (int i = 0; i < 50; ++i) {
    for (const TraceTrack& track : session.tracks()) {
      for (const TraceEvent& event : track.events) EXPECT_EQ(std::string(event.name), "work");
    }
  }
  threads.clear();
  EXPECT_EQ(session.tracks().size(), 3U);
}

}  // namespace
}  // namespace lockstep
