#include <lockstep/comm/process_group.hpp>
#include <lockstep/deck/deck.hpp>

namespace lockstep {

void declare(DeckTable& table, GroupOptions& options) {
  double seconds = std::chrono::duration<double>(options.timeout).count();
  table.key("timeout", seconds,
            {.doc = "how long a rank waits for the others before it gives up",
             .unit = "s",
             .min = 0.001,
             .max = 1e6});
  options.timeout = std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1e3));
}

}  // namespace lockstep
