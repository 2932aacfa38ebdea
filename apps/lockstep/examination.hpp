#pragma once
// What `lockstep doctor` found, and the two ways it tells.
#include <optional>
#include <string>
#include <vector>

#include <lockstep/train/launch/finding.hpp>
#include <lockstep/train/launch/launch.hpp>
#include <lockstep/train/launch/links.hpp>

namespace lockstep::utility {

struct Examination {
  std::vector<std::pair<std::string, std::string>> libraries;
  train::Launch launch;
  std::vector<train::Link> links;
  std::string run_folder;                     ///< where the shared folder was looked for
  std::optional<std::size_t> gradient_bytes;  ///< of the deck's model, on each rank
  double seconds = 0;                         ///< for what every application asks at its start
  train::Findings findings;                   ///< errors first

  [[nodiscard]] bool has_error() const;
};

[[nodiscard]] std::string as_text(const Examination& examination);
[[nodiscard]] std::string as_json(const Examination& examination);

}  // namespace lockstep::utility
