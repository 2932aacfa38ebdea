#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <support/message_of.hpp>
#include <support/process.hpp>

#include <lockstep/base/error.hpp>
#include <lockstep/comm/call_label.hpp>
#include <lockstep/comm/flight/recorder.hpp>
#include <lockstep/comm/flight/ring.hpp>
#include <lockstep/comm/operation.hpp>

namespace lockstep {
namespace {

namespace fs = std::filesystem;

constexpr FlightIdentity rank_1_of_4{.job = 0xabc, .rank = 1, .size = 4};

Operation all_reduce(std::uint64_t sequence) {
  Operation operation{.kind = Operation::Kind::all_reduce, .input = Tensor::zeros({2, 128})};
  operation.output = operation.input;
  operation.sequence = sequence;
  return operation;
}

std::string refusal(const fs::path& file) {
  try {
    static_cast<void>(read_flight_ring(file));
  } catch (const InputError& error) {
    return error.what();
  }
  return "none";
}

TEST(FlightRecorder, WritesRecordsThatAReaderFinds) {
  const test::ScratchFolder scratch;
  const auto recorder = FlightRecorder::open(rank_1_of_4, scratch.path());
  ASSERT_TRUE(recorder);
  const int group = recorder->add_group(7, std::vector<int>{1, 2, 3});
  recorder->name_group(group, "a name of more than fifteen characters");
  const auto first = recorder->entered(group, all_reduce(1));
  recorder->agreed(first);
  recorder->completed(first);
  {
    const CallLabel label("bucket", 2);
    recorder->agreed(recorder->entered(group, all_reduce(2)));
  }
  Operation receive{.kind = Operation::Kind::receive, .root = 2, .tag = 5};
  receive.sequence = 1;
  static_cast<void>(recorder->entered(group, receive));

  const FlightRing ring = read_flight_ring(recorder->path());
  EXPECT_EQ(ring.job, 0xabcU);
  EXPECT_EQ(ring.rank, 1);
  EXPECT_EQ(ring.size, 4);
  EXPECT_EQ(ring.pid, getpid());
  EXPECT_EQ(ring.observed, ProcessState::running);
  ASSERT_EQ(ring.groups.size(), 1U);
  EXPECT_EQ(ring.groups[0].number, 7U);
  EXPECT_EQ(ring.groups[0].members, (std::vector<int>{1, 2, 3}));
  EXPECT_EQ(ring.groups[0].name, "a name of more ");
  EXPECT_EQ(ring.groups[0].entered, 2U);
  const auto& calls = ring.groups[0].calls;
  ASSERT_EQ(calls.size(), 3U);
  EXPECT_EQ(calls[0].what, "all_reduce(sum) #1 of f32[2, 128] (1.0 KiB)");
  EXPECT_EQ(calls[0].state, FlightCall::State::completed);
  EXPECT_GE(calls[0].completed_s, calls[0].entered_s);
  EXPECT_LT(ring.observed_s - calls[0].entered_s, 10.0);
  EXPECT_EQ(calls[1].what, "all_reduce(sum) #2 of f32[2, 128] (bucket 2, 1.0 KiB)");
  EXPECT_EQ(calls[1].state, FlightCall::State::agreed);
  EXPECT_EQ(calls[2].what, "recv(from rank 2, tag 5) #1");
  EXPECT_EQ(calls[2].peer, 3) << "rank 2 of the group is rank 3 of the world";
}

TEST(FlightRecorder, KeepsTheNewestRecords) {
  const test::ScratchFolder scratch;
  const auto recorder = FlightRecorder::open(rank_1_of_4, scratch.path());
  const int group = recorder->add_group(0, std::vector<int>{0, 1, 2, 3});
  constexpr std::uint64_t more = flight::record_slots + 100;
  std::uint64_t first = 0;
  for (std::uint64_t s = 1; s <= more; ++s) {
    const auto ticket = recorder->entered(group, all_reduce(s));
    if (s == 1) first = ticket;
  }
  recorder->completed(first);  // its record is another's by now
  const auto ring = read_flight_ring(recorder->path());
  const auto& calls = ring.groups[0].calls;
  ASSERT_EQ(calls.size(), flight::record_slots);
  EXPECT_EQ(calls.front().sequence, more - flight::record_slots + 1);
  EXPECT_EQ(calls.back().sequence, more);
  for (const auto& call : calls) EXPECT_EQ(call.state, FlightCall::State::entered);
}

TEST(FlightRecorder, IsOneAProcessAndTakesItsFileAlong) {
  const test::ScratchFolder scratch;
  auto recorder = FlightRecorder::open(rank_1_of_4, scratch.path());
  EXPECT_EQ(FlightRecorder::open(rank_1_of_4, scratch.path()), recorder);
  EXPECT_EQ(FlightRecorder::current(), recorder);
  const fs::path file = recorder->path();
  EXPECT_TRUE(fs::exists(file));
  recorder.reset();
  EXPECT_FALSE(fs::exists(file));
  EXPECT_EQ(FlightRecorder::current(), nullptr);
}

TEST(FlightRecorder, IsReadAfterItsProcessWasKilled) {
  const test::ScratchFolder scratch;
  const pid_t child = fork();
  if (child == 0) {
    const auto recorder = FlightRecorder::open(rank_1_of_4, scratch.path());
    const int group = recorder->add_group(0, std::vector<int>{0, 1, 2, 3});
    static_cast<void>(recorder->entered(group, all_reduce(41)));
    raise(SIGKILL);
  }
  waitpid(child, nullptr, 0);
  const auto rings = read_flight_rings(scratch.path(), rank_1_of_4.job);
  ASSERT_EQ(rings.size(), 1U);
  EXPECT_EQ(rings[0].observed, ProcessState::gone);
  EXPECT_EQ(rings[0].groups[0].entered, 41U);
}

TEST(FlightRecorder, IsFoundInAFolderWhereOthersHaveFiles) {
  const test::ScratchFolder scratch;
  const auto recorder = FlightRecorder::open(rank_1_of_4, scratch.path());
  std::filesystem::create_directory(scratch.file("folder.ring"));
  std::filesystem::create_directory(scratch.file("rank-3.ring"));
  for (const char* name :
       {"another's.ring", "rank-2.ring", "lockstep-flight-0000000000000001-rank1.ring"})
    scratch.write(name, "nothing of ours");
  const auto rings = read_flight_rings(scratch.path(), rank_1_of_4.job);
  ASSERT_EQ(rings.size(), 1U);
  EXPECT_EQ(rings[0].file, recorder->path());
  // A damaged one of the job's own is said.
  const std::string damaged = recorder->path().filename().string() + ".ring";
  scratch.write(damaged, "nothing of ours");
  EXPECT_NE(test::message_of<InputError>([&] {
              static_cast<void>(read_flight_rings(scratch.path(), rank_1_of_4.job));
            }).find(damaged),
            std::string::npos);
}

TEST(FlightRecorder, RemovesOldRingsOfDeadProcesses) {
  const test::ScratchFolder scratch;
  constexpr double hour_s = 3600;
  /// A ring of a process of this machine that is dead or alive, or of another machine.
  const auto leave = [&](int rank, double hours, const std::string& kind) {
    const FlightIdentity identity{.job = 0xdead, .rank = rank, .size = 99};
    const pid_t child = fork();
    if (child == 0) {
      const auto recorder = FlightRecorder::open(identity, scratch.path());
      raise(kind == "alive" ? SIGSTOP : SIGKILL);
    }
    int status = 0;
    waitpid(child, &status, WUNTRACED);
    const std::string file = scratch.file(ring_file_name(identity.job, rank));
    std::fstream bytes(file, std::ios::in | std::ios::out | std::ios::binary);
    constexpr int wall_at = 72, host_at = 88;
    std::int64_t wall_ns = 0;
    bytes.seekg(wall_at).read(reinterpret_cast<char*>(&wall_ns), sizeof wall_ns);
    wall_ns -= static_cast<std::int64_t>(hours * hour_s * 1e9);
    bytes.seekp(wall_at).write(reinterpret_cast<const char*>(&wall_ns), sizeof wall_ns);
    if (kind == "elsewhere") bytes.seekp(host_at).write("elsewhere", 10);
    if (kind == "damaged") bytes.seekp(0).write("rubbish!", 8);
    bytes.close();
    fs::last_write_time(file, fs::file_time_type::clock::now() -
                                  std::chrono::seconds(static_cast<int>(hours * hour_s)));
    return std::pair(file, child);
  };
  struct Left {
    double hours;
    std::string kind;
    bool stays;
  };
  const std::vector<Left> cases{{0.5, "dead", true},    {2, "dead", false},
                                {2, "alive", true},     {48, "alive", true},
                                {2, "elsewhere", true}, {48, "elsewhere", false},
                                {2, "damaged", true},   {48, "damaged", false}};
  std::vector<std::pair<std::string, pid_t>> rings;
  for (const Left& one : cases)
    rings.push_back(leave(static_cast<int>(rings.size()) + 2, one.hours, one.kind));
  const auto recorder = FlightRecorder::open(rank_1_of_4, scratch.path());
  for (std::size_t i = 0; i < cases.size(); ++i) {
    EXPECT_EQ(fs::exists(rings[i].first), cases[i].stays) << cases[i].kind << " " << cases[i].hours;
    if (cases[i].kind != "alive") continue;
    kill(rings[i].second, SIGKILL);
    waitpid(rings[i].second, nullptr, 0);
  }
}

TEST(FlightRecorder, IsOffWithoutAFolder) {
  EXPECT_EQ(FlightRecorder::open(rank_1_of_4, "/nonexistent"), nullptr);
}

TEST(FlightRecorder, ClosedGroupsMakeRoomForNewOnes) {
  const test::ScratchFolder scratch;
  const auto recorder = FlightRecorder::open(rank_1_of_4, scratch.path());
  std::vector<int> places;
  for (std::uint64_t number = 0; number < flight::group_slots; ++number) {
    places.push_back(recorder->add_group(number, std::vector<int>{1}));
  }
  EXPECT_EQ(recorder->add_group(100, std::vector<int>{1}), -1);
  EXPECT_EQ(recorder->entered(-1, all_reduce(1)), 0U) << "one that found no room records nothing";
  recorder->close_group(places[5]);
  EXPECT_EQ(recorder->add_group(101, std::vector<int>{1}), places[5]);
}

TEST(FlightRing, RefusesUnreadableFilesInOneSentence) {
  const test::ScratchFolder scratch;
  const auto recorder = FlightRecorder::open(rank_1_of_4, scratch.path());
  const std::string bytes = test::read_file(recorder->path());
  EXPECT_EQ(refusal(scratch.write("good.ring", bytes)), "none");
  EXPECT_NE(refusal(scratch.write("other.ring", "something else"))
                .find("is not a flight recorder's ring"),
            std::string::npos);
  EXPECT_NE(refusal(scratch.write("empty.ring", "")).find("is not a flight recorder's ring"),
            std::string::npos);
  EXPECT_NE(refusal(scratch.write("short.ring", bytes.substr(0, 5000))).find("is cut short: 5000"),
            std::string::npos);
  std::string newer = bytes;
  ++newer[8];
  EXPECT_NE(refusal(scratch.write("newer.ring", newer)).find("of version 4; this program reads"),
            std::string::npos);
  EXPECT_NE(refusal(scratch.file("none.ring")).find("cannot be read"), std::string::npos);
}

// Whatever bytes a damaged file holds, reading it ends with a ring or a sentence.
TEST(FlightRing, OfDamagedBytesIsReadOrRefused) {
  const test::ScratchFolder scratch;
  const auto recorder = FlightRecorder::open(rank_1_of_4, scratch.path());
  const int group = recorder->add_group(0, std::vector<int>{0, 1, 2, 3});
  for (std::uint64_t s = 1; s <= 20; ++s)
    static_cast<void>(recorder->entered(group, all_reduce(s)));
  const std::string bytes = test::read_file(recorder->path());
  std::uint32_t state = 1;
  const auto random = [&state] { return state = state * 1664525U + 1013904223U, state >> 8U; };
  for (int round = 0; round < 200; ++round) {
    std::string damaged = bytes;
    for (int i = 0; i < 40; ++i) {
      damaged[8 + random() % (sizeof(flight::Header) + 600)] = static_cast<char>(random());
      damaged[random() % damaged.size()] = static_cast<char>(random());
      const std::size_t records = damaged.size() - flight::record_slots * sizeof(flight::Record);
      damaged[records + random() % (30 * sizeof(flight::Record))] = static_cast<char>(random());
    }
    // Most rounds keep the header, so that the rest is read too.
    if (round % 8 != 0) damaged.replace(0, 64, bytes, 0, 64);
    static_cast<void>(refusal(scratch.write("damaged.ring", damaged)));
  }
}

TEST(FlightRing, CopiedKeepsTheObservedStateOfItsProcess) {
  const test::ScratchFolder scratch;
  auto recorder = FlightRecorder::open(rank_1_of_4, scratch.path());
  recorder->say_last_words({.message = "something failed", .kind = FailureKind::out_of_memory});
  FlightRing ring = read_flight_ring(recorder->path());
  ring.observed = ProcessState::stopped;
  copy_flight_ring(ring, scratch.file("copy.ring"));
  recorder.reset();
  const FlightRing copy = read_flight_ring(scratch.file("copy.ring"));
  EXPECT_EQ(copy.observed, ProcessState::stopped);
  EXPECT_NEAR(copy.observed_s, ring.observed_s, 1e-3);
  EXPECT_EQ(copy.last_words, "something failed");
  EXPECT_EQ(copy.failure_kind, FailureKind::out_of_memory);
}

TEST(FlightRing, ACopyThatFailsLeavesNothingBehind) {
  const test::ScratchFolder scratch;
  scratch.write("to/a folder/with", "something");
  const auto recorder = FlightRecorder::open(rank_1_of_4, scratch.path());
  const FlightRing ring = read_flight_ring(recorder->path());
  EXPECT_THROW(copy_flight_ring(ring, scratch.file("to/a folder")), Error);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(scratch.file("to")), {}), 1);
}

}  // namespace
}  // namespace lockstep
