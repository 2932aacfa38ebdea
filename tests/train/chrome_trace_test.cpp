#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include <lockstep/train/report/chrome_trace.hpp>
#include <lockstep/train/report/clock_offset.hpp>

namespace lockstep::train {
namespace {

using Json = nlohmann::json;

Json parse(const TracedRank& rank, const std::vector<TraceTrack>& tracks) {
  return Json::parse(chrome_trace_head + chrome_events(rank, tracks) + chrome_trace_tail)
      .at("traceEvents");
}

std::vector<Json> of_phase(const Json& events, const std::string& phase) {
  std::vector<Json> found;
  for (const Json& event : events) {
    if (event.at("ph") == phase) found.push_back(event);
  }
  return found;
}

TEST(ChromeTrace, EventsHaveTimesOfTheFileToTheNanosecond) {
  TraceTrack track{.thread = "training"};
  track.events.push_back({.start_ns = 5'001'234,
                          .end_ns = 5'003'239,
                          .category = "step",
                          .name = "step",
                          .number = 7});
  const Json events = parse({.rank = 2, .host = "node1", .shift_ns = -5'000'000}, {track});
  const auto complete = of_phase(events, "X");
  ASSERT_EQ(complete.size(), 1U);
  EXPECT_EQ(complete[0].at("name"), "step 7");
  EXPECT_EQ(complete[0].at("ts"), 1.234);
  EXPECT_EQ(complete[0].at("dur"), 2.005);
  std::map<std::string, std::string> names;
  for (const Json& about : of_phase(events, "M")) {
    if (about.at("args").contains("name"))
      names[about.at("name").get<std::string>()] = about.at("args").at("name");
  }
  EXPECT_EQ(names["process_name"], "rank 2, node1");
  EXPECT_EQ(names["thread_name"], "training");
}

TEST(ChromeTrace, TextsOfAnyKindGiveValidJson) {
  TraceTrack track{.thread = "a \"thread\""};
  track.events.push_back({.start_ns = 1,
                          .end_ns = 2,
                          .category = "c",
                          .name = "back\\slash\n\x01",
                          .detail = "\"q\""});
  const auto complete = of_phase(parse({}, {track}), "X");
  ASSERT_EQ(complete.size(), 1U);
  EXPECT_EQ(complete[0].at("name"), "back\\slash  ");
  EXPECT_EQ(complete[0].at("args").at("of"), "\"q\"");
}

TEST(ChromeTrace, ADevicesEventsHaveARowWithTheDevicesName) {
  TraceTrack track{.thread = "training"};
  const TraceEvent of_host{.start_ns = 1, .end_ns = 2, .category = "step", .name = "forward"};
  TraceEvent of_device = of_host;
  of_device.category = device_category;
  of_device.detail = "cuda:1";
  track.events = {of_host, of_device, of_device};
  const Json events = parse({}, {track});
  std::map<std::string, int> rows;
  for (const Json& about : of_phase(events, "M")) {
    if (about.at("name") == "thread_name") rows[about.at("args").at("name")] = about.at("tid");
  }
  ASSERT_EQ(rows.size(), 2U);
  const auto complete = of_phase(events, "X");
  ASSERT_EQ(complete.size(), 3U);
  for (const std::size_t i : {0, 1, 2})
    EXPECT_EQ(complete[i].at("tid"), rows.at(i == 0 ? "training" : "cuda:1"));
}

TEST(ChromeTrace, AsynchronousEventsBeginAndEndInsideOut) {
  TraceTrack track{.thread = "training"};
  const TraceEvent outer{.start_ns = 1000,
                         .end_ns = 3000,
                         .category = "collective",
                         .name = "bucket",
                         .number = 1,
                         .bytes = 64,
                         .flight = 9};
  TraceEvent inner = outer;
  inner.name = "not all ranks have entered";
  inner.number = inner.bytes = -1;
  track.events = {outer, inner};  // they end at the same moment
  TraceEvent other = outer;
  other.flight = 10;
  other.number = 2;
  other.start_ns = 2000;
  track.events.push_back(other);
  std::string order;
  for (const Json& event : parse({}, {track})) {
    if (event.at("ph") == "M") continue;
    EXPECT_EQ(event.at("cat"), "collective");
    order += event.at("ph").get<std::string>() + event.at("id2").at("local").get<std::string>() +
             (event.at("name") == "not all ranks have entered" ? "i" : "o") + " ";
  }
  EXPECT_EQ(order, "b0x9o b0x9i e0x9i e0x9o b0xao e0xao ");
}

TEST(ChromeTrace, EventsBeforeTheFilesBeginningAreLeftOut) {
  TraceTrack track{.thread = "training"};
  for (const std::int64_t end : {100, 200, 300})
    track.events.push_back({.start_ns = 50, .end_ns = end, .name = "e", .number = end});
  const auto complete = of_phase(parse({.shift_ns = 1000, .from_ns = 1200}, {track}), "X");
  ASSERT_EQ(complete.size(), 2U);
  EXPECT_EQ(complete[0].at("name"), "e 300");  // outer ones first
  EXPECT_EQ(complete[1].at("name"), "e 200");
}

TEST(ClockOffset, IsTakenFromTheFastestAnswer) {
  // The other clock is 1,000,000 ahead; answers come after 600, 100 and 900.
  const std::vector<ClockQuestion> questions{
      {0, 1'000'500, 600}, {1000, 1'001'060, 1100}, {2000, 1'002'100, 2900}};
  const ClockOffset found = offset_from(questions);
  EXPECT_EQ(found.error_ns, 50);
  EXPECT_EQ(found.offset_ns, -1'000'010);
}

TEST(ClockOffset, IsNothingWhereNoneExplainsTheAnswers) {
  const std::vector<ClockQuestion> questions{{100, 190, 200}};
  const ClockOffset found = offset_from(questions);
  EXPECT_EQ(found.offset_ns, 0);
  EXPECT_EQ(found.error_ns, 50);
}

}  // namespace
}  // namespace lockstep::train
