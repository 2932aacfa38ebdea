#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <lockstep/base/failure.hpp>
#include <lockstep/base/process_state.hpp>

namespace lockstep {

/// One operation in a ring. Times are seconds of the time of day.
struct FlightCall {
  enum class State : std::uint8_t { entered = 1, agreed, completed };
  std::string what;  ///< "all_reduce(sum) #17 of f32[6553600] (bucket 2, 25.0 MiB)"
  bool is_message = false;
  bool serves = false;  ///< a receive that nobody owes a message (serving_label)
  int peer = -1;        ///< of a message: its rank in MPI_COMM_WORLD; -1 for any
  std::uint64_t sequence = 0, fingerprint = 0;
  State state = State::entered;
  double entered_s = 0, completed_s = 0;
};

/// A process group as one of its members saw it.
struct FlightGroupView {
  std::uint64_t number = 0;
  std::string name;  ///< ProcessGroup::name()
  std::string members_text;
  std::vector<int> members;       ///< ranks in MPI_COMM_WORLD, in group order
  std::uint64_t entered = 0;      ///< the newest collective
  std::vector<FlightCall> calls;  ///< records still in the ring, oldest first
};

/// The contents of one process's flight recorder.
struct FlightRing {
  std::filesystem::path file;
  std::uint64_t job = 0;
  int rank = 0, size = 1, pid = 0;
  std::string host;
  double start_s = 0;                             ///< when the recorder was made, time of day
  ProcessState observed = ProcessState::unknown;  ///< the process's state
  double observed_s = 0;                          ///< when; 0: nobody looked while it lived
  std::string last_words;                         ///< the failure that the rank ended with
  FailureKind failure_kind = FailureKind::other;  ///< of that failure
  std::vector<FlightGroupView> groups;
};

/// "lockstep-flight-0123456789abcdef-rank3.ring"; in a Slurm job it also contains the job's number.
[[nodiscard]] std::string ring_file_name(std::uint64_t job, int rank);

/// Reads a ring, of a living process too. If the process's state has not been noted, and it runs on
/// this machine, reads the state now. Throws InputError if the file is not a ring, is cut short, or
/// has a newer version.
[[nodiscard]] FlightRing read_flight_ring(const std::filesystem::path& file);

/// All rings (*.ring) in a folder. Throws as read_flight_ring. With a `job` other than 0 only that
/// job's, by the names of recorders (ring_file_name) and of copies (rank-N.ring), in a folder where
/// anyone may have files with any content.
[[nodiscard]] std::vector<FlightRing> read_flight_rings(const std::filesystem::path& folder,
                                                        std::uint64_t job = 0);

/// Copies a ring file, with a note of its process's present state. Throws Error.
void copy_flight_ring(const FlightRing& ring, const std::filesystem::path& to);

}  // namespace lockstep
