#pragma once
// Whether the hosts of a first start can be reached.
#include <deque>
#include <optional>
#include <string>

#include <lockstep/base/clock.hpp>
#include <lockstep/base/helper_program.hpp>

#include "child.hpp"
#include "launcher.hpp"
#include "placement.hpp"

namespace lockstep::elastic {

/// Has the launcher do nothing on each host, beside the first start: a launcher that cannot reach
/// its hosts may wait for ever. A host that is slow, whose ssh still connects, is waited for. One
/// is given up when the launcher says so by its exit code, or waits though nothing that it started
/// is alive any more.
class FirstContact {
 public:
  FirstContact(const Launcher& launcher, const Hosts& hosts);

  /// Four times a second or so.
  void look();
  /// The launcher's words about the first host, once all are given up.
  [[nodiscard]] std::optional<std::string> failure() const;
  [[nodiscard]] bool has_answered() const;
  /// The first words about any host; empty: none yet.
  [[nodiscard]] std::string words() const;
  /// A sentence about hosts none of which has answered for `patience_s`, with words(); once.
  [[nodiscard]] std::optional<std::string> news();
  /// What the slowest answer took; 0 without any.
  [[nodiscard]] double slowest_s() const noexcept { return slowest_s_; }

  static constexpr double patience_s = 8;

 private:
  struct Host {
    std::string name;
    HelperProgram question;
    bool has_worked = false;           ///< something that it started was seen alive
    Clock::time_point works;           ///< that was last
    std::optional<bool> answers = {};  ///< once it is known

    Host(const std::string& host, const Launcher& launcher);
  };

  void look_at_processes();

  Clock::time_point begun_ = Clock::now(), looked_at_processes_ = begun_;
  std::deque<Host> hosts_;  ///< questions stay where they are
  double slowest_s_ = 0;
  bool has_told_ = false;
};

}  // namespace lockstep::elastic
