#pragma once
// Checks that the hosts of a first start can be reached.
#include <deque>
#include <optional>
#include <string>

#include <lockstep/base/clock.hpp>
#include <lockstep/base/helper_program.hpp>

#include "child.hpp"
#include "launcher.hpp"
#include "placement.hpp"

namespace lockstep::elastic {

/// Has the launcher start a trivial command on each host, beside the first start: a launcher that
/// cannot reach its hosts may wait for ever. A slow host, whose ssh still connects, is waited for.
/// A host is given up when the launcher's exit code says so, or when the launcher waits with no
/// living child.
class FirstContact {
 public:
  FirstContact(const Launcher& launcher, const Hosts& hosts);

  /// To be called about four times a second.
  void look();
  /// The launcher's message about the first host, once all hosts have failed.
  [[nodiscard]] std::optional<std::string> failure() const;
  [[nodiscard]] bool has_answered() const;
  /// The first message about any host; empty: none yet.
  [[nodiscard]] std::string words() const;
  /// After `patience_s` without any answer, once: a sentence with the hosts and words().
  [[nodiscard]] std::optional<std::string> news();
  /// Time of the slowest answer; 0 without any.
  [[nodiscard]] double slowest_s() const noexcept { return slowest_s_; }

  static constexpr double patience_s = 8;

 private:
  struct Host {
    std::string name;
    HelperProgram question;
    bool has_worked = false;           ///< a descendant was seen alive
    Clock::time_point works;           ///< time of the last such observation
    std::optional<bool> answers = {};  ///< once known

    Host(const std::string& host, const Launcher& launcher);
  };

  void look_at_processes();

  Clock::time_point begun_ = Clock::now(), looked_at_processes_ = begun_;
  std::deque<Host> hosts_;  ///< stable addresses
  double slowest_s_ = 0;
  bool has_told_ = false;
};

}  // namespace lockstep::elastic
