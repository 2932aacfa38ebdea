#pragma once
#include <cstdlib>
#include <memory>
#include <string>

#include <gtest/gtest.h>
#include <lockstep/comm/process_group.hpp>
#include <lockstep/rpc/rpc.hpp>
#include <parallel/ranks.hpp>

namespace lockstep::test {

inline std::string name_of_worker(int rank) { return "worker" + std::to_string(rank); }

using WorkerBody = std::function<void(ProcessGroup&)>;

/// Runs `body` on every rank, each a worker called "worker0", ...; with threads and, if the options
/// leave the number of threads open, without.
inline void on_workers(const WorkerBody& body, const rpc::Options& options = {}) {
  for (const int ranks : rank_counts()) {
    on_ranks(ranks, [&](const std::shared_ptr<ProcessGroup>& group) {
      rpc::init(name_of_worker(group->rank()), *group, options);
      try {
        body(*group);
        rpc::shutdown();
      } catch (...) {
        rpc::shutdown(false);  // the next test makes its own
        throw;
      }
    });
  }
}

/// With threads, and driven by the waits.
inline void on_workers_of_both_kinds(const WorkerBody& body) {
  for (const int threads : {4, 0}) {
    SCOPED_TRACE(std::to_string(threads) + " threads");
    on_workers(body, {.workers = threads});
  }
}

/// What `f` throws as an E; "" if it throws nothing.
template <class E, class F>
std::string thrown_by(const F& f) {
  try {
    f();
  } catch (const E& error) {
    return error.what();
  }
  return "";
}

/// The number that follows these words; -1 where they are not.
inline double number_after(const std::string& words, const std::string& text) {
  const auto at = text.find(words);
  return at == std::string::npos ? -1.0 : std::atof(text.c_str() + at + words.size());
}

inline int after(const ProcessGroup& group) { return (group.rank() + 1) % group.size(); }

}  // namespace lockstep::test
