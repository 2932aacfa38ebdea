#include <comm/backend.hpp>
#include <lockstep/comm/threads_group.hpp>

namespace lockstep::test {

void on_every_group(const std::function<void(ProcessGroup&)>& claim) {
  for (const int ranks : {1, 2, 3, 4}) {
    run_ranks_as_threads(ranks,
                         [&](ProcessGroup& group) {
                           claim(group);
                           group.close();
                         },
                         {.timeout = std::chrono::seconds(20)});
  }
}

}  // namespace lockstep::test
