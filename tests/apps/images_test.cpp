// A folder of PNG and JPEG files, from the shell to predictions.
#include <gtest/gtest.h>
#include <data/image_files.hpp>

#include <apps/small_run.hpp>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <lockstep/data/files/hdf5_array.hpp>
#include <nlohmann/json.hpp>
#include <sstream>

namespace lockstep::test {
namespace {

using Json = nlohmann::json;

/// Stripes that lie, stand or, in the third class, cross; each image has its own brightness.
std::vector<std::uint8_t> stripes(int kind, int number) {
  std::vector<std::uint8_t> pixels;
  const int light = 120 + number * 37 % 120;
  for (int y = 0; y < 20; ++y) {
    for (int x = 0; x < 16; ++x) {
      const bool lies = y / 4 % 2 == 0, stands = x / 4 % 2 == 0;
      const bool on = kind == 0 ? lies : kind == 1 ? stands : lies != stands;
      pixels.insert(pixels.end(), 3, static_cast<std::uint8_t>(on ? light : 20));
    }
  }
  return pixels;
}

class Images : public testing::Test {
 protected:
  Images() {
    for (int i = 0; i < 60; ++i) write("train", i);
    for (int i = 60; i < 90; ++i) write("val", i);
  }
  /// Every second image of a class is JPEG.
  void write(const std::string& split, int i) {
    const char* const names[] = {"crossing", "lying", "standing"};
    const int kind = i % 3;
    const std::string stem = scratch_.file("images/" + split + "/" + names[(kind + 1) % 3] + "/" +
                                           std::to_string(100 + i));
    if (i / 3 % 2 == 0) {
      write_png(stem + ".png", 20, 16, stripes(kind, i));
    } else {
      write_jpeg(stem + ".jpg", 20, 16, 3, stripes(kind, i));
    }
  }
  std::vector<std::string> deck(const std::string& dir, const std::string& more = "") {
    return {scratch_.write("deck.toml", "[data]\nkind = \"image_folder\"\npath = \"" +
                                            scratch_.file("images") +
                                            "\"\nimage_size = 16\nimage_resize = 16\n" + more +
                                            "[model]\nkind = \"mlp\"\nhidden = 32\n"
                                            "[optimizer]\nkind = \"adam\"\nlr = 0.005\n"
                                            "[train]\nepochs = 10\nbatch_size = 12\n"),
            "--set", "run.dir=\"" + scratch_.file(dir) + "\""};
  }
  ScratchFolder scratch_;
};

TEST_F(Images, AreLearntEvaluatedAndPredictedByTheirFolders) {
  const Finished trained = classify(2, deck("run",
                                            "augment_resized_crop = true\n"
                                            "augment_scale = [0.8, 1]\n"));
  ASSERT_EQ(trained.exit_code, 0) << trained.output;
  EXPECT_TRUE(trained.says("60 training and 30 test samples")) << trained.output;
  const Json summary = Json::parse(read_file(scratch_.file("run/summary.json")));
  EXPECT_GT(summary.at("test_accuracy").get<double>(), 0.8) << trained.output;
  const Finished judged = lockstep_utility({"evaluate", scratch_.file("run")});
  EXPECT_EQ(judged.exit_code, 0) << judged.output;
  EXPECT_TRUE(judged.says("crossing")) << judged.output;
  const Finished predicted =
      lockstep_utility({"predict", scratch_.file("run"), "--input", scratch_.file("images/val"),
                        "--output", scratch_.file("y.h5")});
  ASSERT_EQ(predicted.exit_code, 0) << predicted.output;
  std::vector<std::int64_t> kinds(30);
  Hdf5Array(scratch_.file("y.h5"), "predictions_class").read(0, 30, std::span(kinds));
  int right = 0;
  for (std::int64_t i = 0; i < 30; ++i) right += kinds[static_cast<std::size_t>(i)] == i / 10;
  EXPECT_EQ(right, std::lround(30 * summary.at("test_accuracy").get<double>()));
}

TEST_F(Images, OfADamagedFileItsNameIsTheRunsLastWord) {
  const std::string bad = scratch_.write("images/train/lying/000.jpg", "no image");
  const Finished finished = classify(2, deck("bad"));
  EXPECT_EQ(finished.exit_code, 2) << finished.output;
  EXPECT_TRUE(finished.says(bad + ": it is neither PNG nor JPEG")) << finished.output;
}

/// Of two ranks, the one that reads it tells the other; both save.
TEST_F(Images, ADamagedFileOfTheTestSetDoesNotCostTheEpoch) {
  const std::string bad = scratch_.file("images/val/lying/163.jpg"), whole = read_file(bad);
  scratch_.write("images/val/lying/163.jpg", whole.substr(0, whole.size() / 3));
  auto arguments = deck("run");
  arguments.insert(arguments.end(), {"--set", "train.epochs=2"});
  const Finished failed = classify(2, arguments);
  EXPECT_EQ(failed.exit_code, 2) << failed.output;
  EXPECT_TRUE(failed.says(bad)) << failed.output;
  EXPECT_TRUE(failed.says("is saved: mend the cause and go on with --resume")) << failed.output;
  scratch_.write("images/val/lying/163.jpg", whole);
  EXPECT_TRUE(std::filesystem::exists(scratch_.file("run/checkpoints/step-00000005.h5")))
      << "the first epoch's";
  arguments.emplace_back("--resume");
  const Finished resumed = classify(2, arguments);
  ASSERT_EQ(resumed.exit_code, 0) << resumed.output;
  std::vector<std::int64_t> evaluated;
  std::istringstream lines(read_file(scratch_.file("run/metrics.jsonl")));
  for (std::string line; std::getline(lines, line);) {
    const Json row = Json::parse(line);
    if (row.at("kind") == "eval") evaluated.push_back(row.at("step").get<std::int64_t>());
  }
  EXPECT_EQ(evaluated, (std::vector<std::int64_t>{5, 10}));
}

}  // namespace
}  // namespace lockstep::test
