// Pages of `lockstep report` in headless Chromium, as a reader sees them.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <apps/written_run.hpp>
#include <support/process.hpp>

#include "report/report.hpp"

namespace lockstep::test {
namespace {

namespace fs = std::filesystem;

/// The document of a page after its scripts, and Chromium's stderr.
struct Shown {
  std::string document, log;
};
Shown shown(const ScratchFolder& scratch, const std::string& page) {
  const std::string log = scratch.file("log"), document = scratch.file("document");
  // As root, and in a container, it has no sandbox.
  const Finished finished =
      run({"sh", "-c",
           quoted({std::getenv("LOCKSTEP_CHROMIUM"), "--headless", "--no-sandbox", "--disable-gpu",
                   "--disable-dev-shm-usage", "--no-first-run", "--enable-logging=stderr",
                   "--user-data-dir=" + scratch.file("profile"), "--dump-dom", "file://" + page}) +
               " >" + document + " 2>" + log},
          {}, 120);
  EXPECT_EQ(finished.exit_code, 0) << read_file(log);
  return {read_file(document), read_file(log)};
}

int count(const std::string& text, const std::string& part) {
  int found = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

void write_study(const fs::path& folder) {
  fs::create_directories(folder);
  const auto sample = [](int ranks, double seconds) {
    return R"({"ranks":)" + std::to_string(ranks) +
           R"(,"nodes":1,"repeat":1,"batch_size":128,"oversubscribed":false,"peak_rss_mib":[50],)"
           R"("intervals":[{"first_step":1,"steps":100,"samples":12800,"seconds":)" +
           std::to_string(seconds) +
           R"(,"compute_s":0.5,"communication_s":0.1,"communication_work_s":0.05,)"
           R"("communication_late_s":0.025,"data_s":0.01,"other_s":0.02}]})";
  };
  std::ofstream(folder / "scaling.json")
      << R"({"kind":"lockstep scaling","format":1,"study":{"deck":"<b>deck</b>.toml",)"
      << R"("deck_hash":"0123","version":"0.1.0","git_commit":"abc","cpu":"a CPU","cores":4,)"
      << R"("host":"vm","mode":"strong","program":"classify","batch_size":128,"steps":100,)"
      << R"("warmup_steps":0,"threads":1},"sizes":[],"samples":[)" << sample(1, 1.0) << ","
      << sample(4, 0.3125) << R"(],"benchmarks":[{"ranks":4,"memory":{"gb_per_s":[5,5]},)"
      << R"("products":{"gflop_per_s":[90,80]},"collectives":[)"
      << R"({"op":"all_reduce","bytes":1024,"busbw_gb_per_s":0.5},)"
      << R"({"op":"all_reduce","bytes":1048576,"busbw_gb_per_s":4.5}]}],"prediction":{)"
      << R"("fit_ranks":[1,2],"notes":["<b>two sizes</b>"],"advice_ranks":64,"sizes":[)"
      << R"({"ranks":4,"nodes":1,"batch_size":128,"measured_step_ms":3.125,"held_out":true,)"
      << R"("step_ms":2.75,"samples_per_s":46545,"compute_ms":2.5,"exposed_communication_ms":0.2,)"
      << R"("waiting_for_late_ranks_ms":0.05,"error":-0.12},)"
      << R"({"ranks":64,"nodes":8,"batch_size":128,"failed":"no network"}],"advice":[)"
      << R"({"change":"gradients as bf16","settings":["a=1","b=2"],"gain":0.0625},)"
      << R"({"change":"PowerSGD","failed":"not rehearsed"}]}})";
}

// Names and texts of runs are an attacker's.
TEST(ReportPage, ShowsItsFiguresAndRunsNoTextOfARun) {
  const ScratchFolder scratch;
  const std::string attack = "<img src=x onerror=alert(1)>";
  const fs::path first = scratch.file(attack), second = scratch.file("<script>alert(1)<");
  write_run(first, "[run]\ndir = \"a\"\nnote = \"</script><script>alert(2)</script><!--\"\n");
  write_run(second / "script>", "[run]\ndir = \"b\"\nnote = \"${1}`\"\n");
  std::ofstream(first / "metrics.jsonl", std::ios::app)
      << R"({"kind":"eval","step":20,"epoch":2,"set":"test","loss":0.5,"</h3><script>x</script>":1})"
      << "\n";
  std::ofstream(first / "elastic.jsonl")
      << R"({"kind":"start","start":1,"ranks":4,"step":0,"time":"t0"})"
      << "\n"
      << R"({"kind":"end","start":1,"step":9,"seconds":3,"text":"rank 1 <b>died</b>","why":"killed"})"
      << "\n"
      << R"({"kind":"start","start":2,"ranks":3,"step":8,"lost_steps":1,"down_s":0.5})"
      << "\n"
      << R"({"kind":"over","text":"the run is complete"})"
      << "\n";
  write_study(scratch.file("study"));
  const std::string page = scratch.file("report.html");
  const std::int64_t bytes =
      report::write_report({first, second / "script>", scratch.file("study")}, page);
  EXPECT_EQ(bytes, static_cast<std::int64_t>(fs::file_size(page)));
  EXPECT_EQ(count(read_file(page), "https://"), 2);  // licence and home page of dygraphs

  // One error on purpose: it is seen, and there is no other.
  std::ofstream(page, std::ios::app) << "<script>no.such.thing</script>";
  const auto [whole, log] = shown(scratch, page);
  EXPECT_EQ(count(log, "CONSOLE"), 1) << log;
  EXPECT_EQ(count(log, "no is not defined"), 1) << log;
  // The data, dygraphs, page.js and the error.
  EXPECT_EQ(count(whole, "<script"), 4);
  const auto begin = whole.find("<main"), end = whole.find("<footer");
  ASSERT_TRUE(begin < end && end != std::string::npos) << whole.substr(0, 1000);
  const std::string document = whole.substr(begin, end - begin);
  EXPECT_EQ(count(document, "data-done=\"yes\""), 1) << "page.js did not come to its end";
  for (const char* element : {"<img", "<b>", "<script"}) EXPECT_EQ(count(document, element), 0);
  const std::string name = "&lt;img src=x onerror=alert(1)&gt;";
  for (const std::string& part : std::vector<std::string>{
           "<td>" + name + "</td><td>completed</td><td>4</td><td>20 of 20</td><td>2</td><td>0.8750",
           "<td>script&gt;</td>",
           "<h3>training loss</h3>",
           "mean of an epoch 0.875 at 20",
           "<h3>test accuracy</h3>",
           "<h3>test &lt;/h3&gt;&lt;script&gt;x&lt;/script&gt;</h3>",
           "0.6</div>",  // on an axis
           "<td>backward</td><td>3</td><td>3</td>",
           "<td>101</td><td>112</td><td>144</td>",
           "step-00000020.h5",
           "start 1 ended after 3.0 s: rank 1 &lt;b&gt;died&lt;/b&gt;",
           "start 2 on 3 ranks from step 8, 1 steps again, 0.5 s after the end before it",
           "<td>run.note</td><td>\"&lt;/script&gt;&lt;script&gt;alert(2)&lt;/script&gt;&lt;!--\"</"
           "td><td>\"${1}`\"</td>",
           "<td>HDF5</td><td>1.10.8</td><td>1.10.8</td>",
           "<td>3.20</td><td>80 %</td>",  // speed-up and efficiency on 4 ranks
           "study: collectives of 4 ranks",
           "all_reduce 4.5 at 1048576",
           "<td>10.0</td><td>80</td>",
           "a model fitted to 1, 2 ranks",
           "study: &lt;b&gt;two sizes&lt;/b&gt;.",
           "<td>2.750</td><td>2.500</td><td>0.200</td><td>0.050</td><td>46545</td><td>3.125</td>"
           "<td>-12.0 %</td><td>held out</td>",
           "not predicted: no network",
           "what would help: samples/s on 64 ranks",
           "<td>gradients as bf16</td><td>+6.2 %</td><td>a=1 b=2</td>",
           "<td>PowerSGD</td><td>not known: not rehearsed</td>",
           "predicted 2.75 at 4"}) {
    EXPECT_NE(document.find(part), std::string::npos) << part;
  }
  EXPECT_GE(count(document, "<canvas"), 2 * 16);  // two of each chart
  if (testing::Test::HasFailure()) std::cerr << document;
}

}  // namespace
}  // namespace lockstep::test
