#pragma once
#include <string>
#include <vector>

#include <lockstep/base/philox.hpp>

namespace lockstep::reliability {

/// Outcome of one try.
struct Outcome {
  bool right = true;
  /// A text that tries share, so that it can be counted: "the run went on to the same bits". For a
  /// wrong outcome: all that is known.
  std::string words;
};

[[nodiscard]] inline Outcome right(std::string words) { return {true, std::move(words)}; }
[[nodiscard]] inline Outcome wrong(std::string words) { return {false, std::move(words)}; }

/// One injected fault, and the required outcome. `random` differs between tries, and is the same
/// for the same try of the same seed.
struct Fault {
  std::string name;  ///< "kill"
  std::string what;  ///< a sentence for the page
  int tries;         ///< number of tries in full
  int few;           ///< number of tries if there is a minute for all faults
  Outcome (*attempt)(PhiloxSequence& random);
};

// One function per file.
[[nodiscard]] std::vector<Fault> faults_of_processes();  // killed and stopped ranks
[[nodiscard]] std::vector<Fault> faults_of_disks();      // full and failing disks
[[nodiscard]] std::vector<Fault> faults_of_folders();    // folders: read-only, gone, wanted by two
[[nodiscard]] std::vector<Fault> faults_of_outputs();    // blocked outputs; clocks
[[nodiscard]] std::vector<Fault> faults_of_files();      // damaged and garbage files

}  // namespace lockstep::reliability
