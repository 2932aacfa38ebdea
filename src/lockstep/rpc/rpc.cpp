#include <lockstep/rpc/rpc.hpp>

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

void serve(std::chrono::milliseconds time) {
  Agent::current().serve(Clock::now() + bounded(time), {});
}

void serve_until(const std::function<bool()>& over) {
  if (!over) throw InputError("rpc::serve_until was given an empty function: it would never end");
  Agent& agent = Agent::current();
  agent.serve(Clock::time_point::max(), over);
}

WorkerInfo this_worker() {
  const Agent& agent = Agent::current();
  return agent.workers()[static_cast<std::size_t>(agent.id())];
}

WorkerInfo worker(const To& to) {
  const Agent& agent = Agent::current();
  return agent.workers()[static_cast<std::size_t>(agent.resolve(to))];
}

std::vector<WorkerInfo> all_workers() { return Agent::current().workers(); }

}  // namespace lockstep::rpc
