// A program with a loop of its own, as far as `lockstep elastic` sees it, that misbehaves:
//   own_loop FOLDER FAULT
// It makes 30 steps of 20 ms; its whole state is their number, in FOLDER/steps. FAULT:
//   none
//   ignore: it goes on for ever, whatever it is asked
//   zero: in step 5 of each start it leaves, with exit code 0
//   seven: in step 5 of its first start it leaves, with exit code 7; sevens: of each start
//   crash: a rank ends by a signal before MPI_Init, at each start
//   hang: in step 5 of its first start one rank comes to a stop
//   plain: it makes no StopRequest; in step 5 of its first start one rank is killed
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <lockstep/comm/agreement.hpp>
#include <lockstep/comm/mpi_group.hpp>
#include <lockstep/train/elastic.hpp>
#include <optional>
#include <string>
#include <thread>

int main(int argc, char** argv) {
  namespace fs = std::filesystem;
  using namespace lockstep;
  if (argc != 3) return 2;
  const fs::path folder = argv[1], state = folder / "steps", mark = folder / "mark";
  const std::string fault = argv[2];
  if (fault == "crash") std::raise(SIGSEGV);
  const MpiSession session(argc, argv);
  const auto group = make_mpi_group(MPI_COMM_WORLD);
  const bool is_last = group->rank() == group->size() - 1;
  std::optional<train::StopRequest> stop;
  if (fault != "plain") stop.emplace(*group);

  const std::int64_t found = agree(*group, 0, [&] {
    std::int64_t steps = 0;
    fs::create_directories(folder);
    std::ifstream(state) >> steps;
    return steps;
  });
  const bool is_marked = agree(*group, 0, [&] { return fs::exists(mark); });
  constexpr std::int64_t last = 30, faulty = 5;
  constexpr auto pace = std::chrono::milliseconds(20);
  int code = 0;
  bool stops = false, leaves = false;
  std::int64_t step = found;
  for (std::int64_t made = 1; step < last || fault == "ignore"; ++made) {
    std::this_thread::sleep_for(pace);
    const bool now = made == faulty;
    const bool is_once = fault == "seven" || fault == "hang" || fault == "plain";
    if (now && is_once && !is_marked) {
      agree(*group, 0, [&] { std::ofstream(mark) << "once"; });
      if (fault == "seven") code = 7;
      if (fault == "plain" && is_last) std::raise(SIGKILL);
      while (fault == "hang" && is_last) pause();
    }
    if (now && fault == "sevens") code = 7;
    leaves = now && (code != 0 || fault == "zero");
    if (leaves) break;
    ++step;
    stops = stop && stop->requested(step) && fault != "ignore";
    agree(*group, 0, [&] { std::ofstream(state) << step; });
    if (stops) break;
  }
  group->close();
  if (stop && !leaves) code = stop->exit_code(step == last);
  return code;
}
