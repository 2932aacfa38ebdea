#include "../commands.hpp"
#include "supervisor.hpp"

namespace lockstep::utility {

ExitCode supervise(const elastic::Options& options) { return elastic::Supervisor(options).run(); }

}  // namespace lockstep::utility
