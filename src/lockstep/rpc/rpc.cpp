#include <lockstep/rpc/rpc.hpp>

#include <lockstep/base/clock.hpp>
#include <lockstep/rpc/agent.hpp>

namespace lockstep::rpc {

void init(const std::string& name, ProcessGroup& group, const Options& options) {
  Agent::open(name, group, options);
}

ShutdownReport shutdown(bool graceful) {
  Agent* const agent = Agent::current_or_null();
  if (!agent) static_cast<void>(Agent::current());  // throws
  return Agent::close(*agent, graceful);
}

void serve(std::chrono::milliseconds time) { Agent::current().serve(deadline_in(time), {}); }

void serve_until(const std::function<bool()>& over) {
  if (!over) throw InputError("rpc::serve_until was given an empty function");
  Agent& agent = Agent::current();
  agent.serve(Clock::time_point::max(), over);
}

Agent& current_agent() { return Agent::current(); }

WorkerInfo this_worker() { return worker(Agent::current().id()); }

WorkerInfo worker(const To& to) {
  const WorkerTable& workers = Agent::current().workers();
  return workers.all()[static_cast<std::size_t>(workers.resolve(to))];
}

std::vector<WorkerInfo> all_workers() { return Agent::current().workers().all(); }

WorksFor::WorksFor(Agent& agent) : before_(Agent::exchange_current(&agent)) {}
WorksFor::~WorksFor() { Agent::exchange_current(before_); }

}  // namespace lockstep::rpc
