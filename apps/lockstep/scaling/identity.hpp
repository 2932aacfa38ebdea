#pragma once
// What a study was made of: what two studies must have in common to be compared.
#include <cstdint>
#include <string>

#include "json.hpp"
#include "options.hpp"

namespace lockstep::scaling {

struct Identity {
  std::string deck, deck_hash;  ///< the file's name, and the hash of what it and --set resolve to
  std::string version, commit;  ///< of Lockstep
  std::string cpu;              ///< the model of this machine's processor
  int cores = 0;                ///< that this process may use
  std::string host;             ///< for people: nodes of a cluster are alike
  Mode mode = Mode::strong;
  std::string program;  ///< its name without folders
  std::int64_t batch_size = 0, steps = 0, warmup = 0;
  int threads = 1;

  [[nodiscard]] Json json() const;
  /// Throws nlohmann's exceptions where it is none.
  [[nodiscard]] static Identity from(const Json& json);
};

/// This machine and this Lockstep; the rest stays to be filled in.
[[nodiscard]] Identity identity_here();

/// A sentence's part about the first thing in which `now` differs so that figures cannot be
/// compared: "another deck (hash 1, and now 2)". Empty: they can. Differences in `across` ("deck",
/// "version" or "machine") are borne.
[[nodiscard]] std::string difference(const Identity& before, const Identity& now,
                                     const std::string& across = "");

}  // namespace lockstep::scaling
