#pragma once
#include <string>
#include <vector>

#include <lockstep/base/philox.hpp>

namespace lockstep::reliability {

/// What came of one try.
struct Outcome {
  bool right = true;
  /// In words that tries share, as they are counted: "the run went on to the same bits". Of one
  /// that is wrong: all that is known.
  std::string words;
};

[[nodiscard]] inline Outcome right(std::string words) { return {true, std::move(words)}; }
[[nodiscard]] inline Outcome wrong(std::string words) { return {false, std::move(words)}; }

/// Something that goes wrong, and what must come of it. `random` is different for each try, and the
/// same for the same try of the same seed.
struct Fault {
  std::string name;  ///< "kill"
  std::string what;  ///< a sentence, for the page
  int tries;         ///< in full
  int few;           ///< where there is a minute for all of them
  Outcome (*attempt)(PhiloxSequence& random);
};

// A file each.
[[nodiscard]] std::vector<Fault> faults_of_processes();  // killed and stopped
[[nodiscard]] std::vector<Fault> faults_of_disks();      // full and failing
[[nodiscard]] std::vector<Fault> faults_of_folders();    // read-only, gone, wanted by two
[[nodiscard]] std::vector<Fault> faults_of_outputs();    // that take nothing; clocks
[[nodiscard]] std::vector<Fault> faults_of_files();      // damaged and garbage

}  // namespace lockstep::reliability
