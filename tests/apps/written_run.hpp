#pragma once
#include <filesystem>
#include <fstream>
#include <string>

namespace lockstep::test {

/// A row of `steps` steps on 4 ranks that took 0.01 s each; others add fields behind "kind".
inline std::string written_row(const std::string& kind, int step, int epoch, double loss,
                               int steps) {
  const auto three = [&](double ms) {
    const std::string s = std::to_string(ms * 1e-3 * steps);
    return "[" + s + "," + s + "," + s + "]";
  };
  return R"({"kind":")" + kind + R"(","step":)" + std::to_string(step) + R"(,"epoch":)" +
         std::to_string(epoch) + (kind == "step" ? R"(,"total_steps":20)" : "") + R"(,"loss":)" +
         std::to_string(loss) + R"(,"lr":0.5,"grad_norm":2.5,"samples_per_s":6400,"seconds":)" +
         std::to_string(0.01 * steps) + R"(,"time_min_mean_max_s":{"compute":)" + three(7) +
         R"(,"forward":)" + three(2) + R"(,"backward":)" + three(3) + R"(,"optimizer":)" +
         three(1) + R"(,"communication":)" + three(2) + R"(,"communication_work":)" + three(0.5) +
         R"(,"communication_late":)" + three(1) + R"(,"data":)" + three(0.25) + R"(,"other":)" +
         three(0.75) + "}}\n";
}

/// A run folder as a complete run of 2 epochs of 10 steps leaves it; row by row every 4 steps.
inline void write_run(const std::filesystem::path& folder, const std::string& deck,
                      const std::string& app = "classify") {
  std::filesystem::create_directories(folder / "checkpoints");
  std::ofstream metrics(folder / "metrics.jsonl");
  for (int epoch = 1; epoch <= 2; ++epoch) {
    const int base = 10 * (epoch - 1);
    metrics << written_row("step", base + 4, epoch, 2.0 / epoch, 4)
            << written_row("step", base + 8, epoch, 1.5 / epoch, 4)
            << written_row("epoch", base + 10, epoch, 1.75 / epoch, 10)
            << R"({"kind":"eval","step":)" << base + 10 << R"(,"epoch":)" << epoch
            << R"(,"set":"test","loss":)" << 1.625 / epoch << R"(,"accuracy":0.)" << 5 + epoch
            << ",\"seconds\":0.1}\n";
  }
  std::ofstream(folder / "deck.toml") << deck;
  std::ofstream(folder / "summary.json")
      << R"({"app":")" << app
      << R"(","completed":true,"steps":20,"ranks":4,"samples_per_s":6321.5,"wall_s":1.25,)"
      << R"("peak_rss_mib":[101,102,103,144],"version":"0.1.0","libraries":{"HDF5":"1.10.8"}})";
  std::ofstream(folder / "checkpoints" / "step-00000020.h5") << "20 bytes of a state.";
}

}  // namespace lockstep::test
