#include <lockstep/train/report/flight_report.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <sstream>
#include <system_error>
#include <thread>
#include <vector>

#include <lockstep/base/clock.hpp>
#include <lockstep/base/for_each_entry.hpp>
#include <lockstep/base/read_file.hpp>
#include <lockstep/comm/flight/recorder.hpp>
#include <lockstep/comm/flight/ring.hpp>
#include <lockstep/comm/flight/verdict.hpp>
#include <lockstep/io/own_file.hpp>

namespace lockstep::train {
namespace fs = std::filesystem;
namespace {

// Ranks that wait for the same operation reach their deadlines as far apart as they entered it.
constexpr double others_s = 1.0;
// The complaining rank waits for this before it ends the job: another may have given up `others_s`
// later. It waits longer while it reads everybody's rings, which the others read too.
constexpr double grace_s = 1.5, reading_s_a_rank = 0.05;
constexpr auto poll = std::chrono::milliseconds(20);

fs::path copy_of(const fs::path& folder, int rank) {
  return folder / fmt::format("rank-{}.ring", rank);
}

bool has_stopped_or_died(const FlightRing& ring) { return !can_run(ring.observed); }

/// One rank's contribution to the report on a failed communication.
class Report {
 public:
  Report(const FlightRecorder& recorder, fs::path folder)
      : recorder_(recorder), folder_(std::move(folder)) {
    fs::create_directories(folder_);
  }

  /// Copies the rings of this node's ranks accepted by `chosen`, unless another rank has.
  template <class F>
  void copy_rings(const F& chosen) const {
    for (const FlightRing& ring : of_this_node()) {
      const fs::path target = copy_of(folder_, ring.rank);
      if (!chosen(ring) || fs::exists(target)) continue;
      try {
        copy_flight_ring(ring, target);
      } catch (const InputError&) {  // another rank was faster, and removed it
        continue;
      }
      std::error_code ignored;
      fs::remove(ring.file, ignored);
    }
  }
  void copy_mine_and_dead_ones() const {
    copy_rings([&](const FlightRing& ring) {
      return ring.rank == recorder_.rank() || has_stopped_or_died(ring);
    });
  }

  void wait_for_the_others() const {
    const auto start = Clock::now();
    const auto there = [&] {
      int rings = 0;
      std::error_code ignored;
      for_each_entry(
          folder_, [&](const auto& entry) { rings += entry.path().extension() == ".ring" ? 1 : 0; },
          ignored);
      return rings;
    };
    while (there() < recorder_.size() && seconds_since(start) < others_s) {
      std::this_thread::sleep_for(poll);
      copy_mine_and_dead_ones();  // it may have been stopped since
    }
  }

  [[nodiscard]] std::vector<FlightRing> rings() const {
    return read_flight_rings(folder_, recorder_.job());
  }

 private:
  [[nodiscard]] std::vector<FlightRing> of_this_node() const {
    return read_flight_rings(recorder_.path().parent_path(), recorder_.job());
  }

  const FlightRecorder& recorder_;
  fs::path folder_;
};

void write_text(const fs::path& file, const std::string& text) {
  remove_link(file);
  std::ofstream out(file);
  out << text << '\n';
}

void judge(const FlightRecorder& recorder, const fs::path& run_dir, const Failure& failure,
           const std::function<void(const std::string&)>& complain) {
  const fs::path folder = run_dir / "flight";
  const Report report(recorder, folder);
  report.copy_mine_and_dead_ones();
  report.wait_for_the_others();
  const std::vector<FlightRing> given_up = report.rings();
  const auto first =
      std::ranges::find_if(given_up, [](const FlightRing& r) { return !r.last_words.empty(); });
  const fs::path verdict = folder / "verdict.txt";
  if (first == given_up.end() || first->rank != recorder.rank()) {
    std::error_code ignored;
    const auto is_said = [&] { return fs::exists(verdict, ignored); };
    std::this_thread::sleep_for(Seconds(grace_s));
    if (is_said()) return;
    const auto start = Clock::now();
    while (!is_said() && seconds_since(start) < reading_s_a_rank * recorder.size())
      std::this_thread::sleep_for(poll);
    std::this_thread::sleep_for(Seconds(grace_s));
    return;
  }
  report.copy_rings([](const FlightRing&) { return true; });
  const std::string text = flight_verdict(report.rings()).text;
  complain(
      fmt::format("{}. {} holds the rings of the ranks' last operations: `lockstep flight {}` "
                  "shows them. This rank's own message: {}",
                  text, folder.string(), run_dir.string(), failure.message));
  write_text(verdict, text);
}

/// Removes rings of the run's last start that were never collected: nothing else would find them.
/// The folder now belongs to this run, so that start has ended.
void remove_rings_of_last_start(const fs::path& run_dir) {
  const auto where = read_where(run_dir / "flight");
  if (!where || where->job == 0) return;
  try {
    for (const FlightRing& ring : read_flight_rings(where->folder, where->job)) {
      std::error_code ignored;
      if (ring.observed == ProcessState::gone || ring.observed == ProcessState::died)
        fs::remove(ring.file, ignored);
    }
  } catch (const Error&) {  // another version's
  }
}

}  // namespace

std::optional<RingsOfJob> read_where(const fs::path& flight) {
  constexpr std::int64_t most_bytes = 1 << 16U;  // a number and a folder
  std::istringstream where(read_small_file_or_nothing(flight / "where", most_bytes));
  RingsOfJob rings;
  if (!(where >> std::hex >> rings.job >> std::ws) || !std::getline(where, rings.folder))
    return std::nullopt;
  return rings;
}

void note_flight(const fs::path& run_dir) {
  const auto recorder = FlightRecorder::current();
  remove_rings_of_last_start(run_dir);
  fs::remove_all(run_dir / "flight");
  if (!recorder) return;
  fs::create_directories(run_dir / "flight");
  write_text(run_dir / "flight" / "where",
             fmt::format("{:016x} {}", recorder->job(), recorder->path().parent_path().string()));
}

void forget_flight(const fs::path& run_dir) noexcept {
  std::error_code ignored;
  fs::remove_all(run_dir / "flight", ignored);
}

void give_up(const fs::path& run_dir, const Failure& failure,
             const std::function<void(const std::string&)>& complain) {
  const auto recorder = FlightRecorder::current();
  const bool can_judge = recorder && !run_dir.empty() && failure.code == ExitCode::communication;
  if (!can_judge) complain(failure.message);
  if (!recorder || run_dir.empty()) return;
  recorder->say_last_words(failure);
  try {
    if (can_judge) {
      judge(*recorder, run_dir, failure, complain);
    } else {
      Report(*recorder, run_dir / "flight").copy_mine_and_dead_ones();
    }
  } catch (const std::exception& error) {  // a full disk must not hide the failure of the run
    if (can_judge) complain(fmt::format("{} (and no verdict: {})", failure.message, error.what()));
  }
}

}  // namespace lockstep::train
