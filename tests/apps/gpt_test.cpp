// gpt: text to tokens, training, generated text.
#include <gtest/gtest.h>

#include <algorithm>
#include <apps/same_results.hpp>
#include <apps/small_run.hpp>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include <lockstep/checkpoint/weights/safetensors.hpp>
#include <lockstep/data/tokens/token_file.hpp>

namespace lockstep::test {
namespace {

namespace fs = std::filesystem;
using Arguments = std::vector<std::string>;

Finished gpt(int ranks, const std::string& verb, Arguments arguments) {
  arguments.insert(arguments.begin(), verb);
  return run(app(ranks, "apps/gpt", arguments));
}

/// Sentences about numbers: a few words determine the rest.
std::string counting_rhymes(int n) {
  const char* words[] = {"one", "two", "three", "four", "five", "six", "seven"};
  std::string text;
  for (int i = 0; i < n; ++i) {
    text += std::string("After ") + words[i * i % 7] + " comes " + words[(i * i + 1) % 7] +
            (i % 3 == 0 ? ", says Grüße.\n" : ".\n");
  }
  return text;
}

/// In nats, for a character drawn by its frequency alone.
double character_entropy(const std::string& text) {
  std::map<char, double> counts;
  for (const char c : text) ++counts[c];
  double entropy = 0;
  for (const auto& [c, count] : counts) {
    const double p = count / static_cast<double>(text.size());
    entropy -= p * std::log(p);
  }
  return entropy;
}

class Gpt : public testing::Test {
 protected:
  /// Token files of the rhymes, and arguments for a training of 24 steps on them.
  [[nodiscard]] std::string tokens(const std::string& tokenizer = "characters") {
    const std::string folder = scratch_.file("tokens_" + tokenizer);
    good(gpt(1, "tokens",
             {scratch_.write("text.txt", text_), "--output", folder, "--tokenizer", tokenizer,
              "--vocabulary", source("tests/data/byte_pairs"), "--shard-tokens", "9000"}));
    return folder;
  }
  [[nodiscard]] Arguments deck(const std::string& data, const std::string& dir,
                               const Arguments& more = {}) {
    Arguments all{source("inputs/gpt_bible.toml")};
    Arguments settings{"run.dir=\"" + scratch_.file(dir) + "\"",
                       "data.path=\"" + data + "\"",
                       "data.context=32",
                       "data.train_limit=384",
                       "data.test_limit=40",
                       "model.width=32",
                       "model.heads=2",
                       "model.depth=2",
                       "model.residual_dropout=0.1",
                       "train.epochs=2",
                       "schedule.warmup=4",
                       "log.every_steps=4",
                       "checkpoint.every_steps=5",
                       "checkpoint.keep=0"};
    settings.insert(settings.end(), more.begin(), more.end());
    for (const std::string& setting : settings) {
      all.emplace_back("--set");
      all.push_back(setting);
    }
    return all;
  }
  [[nodiscard]] nlohmann::json summary(const std::string& dir) const {
    return nlohmann::json::parse(read_file(scratch_.file(dir) + "/summary.json"));
  }

  ScratchFolder scratch_;
  std::string text_ = counting_rhymes(1200);
};

TEST_F(Gpt, IsPlannedForAMeshOf4096RanksInTwoSeconds) {
  Arguments arguments{"model", "describe"};
  const Arguments settings =
      deck(tokens(), "none",
           {"model.width=64", "model.heads=8", "model.depth=8", "train.batch_size=128"});
  arguments.insert(arguments.end(), settings.begin(), settings.end());
  for (const char* more : {"--mesh", "dp=64,pp=8,tp=8", "--ranks-per-node", "8"})
    arguments.emplace_back(more);
  double best_s = 1e9;
  for (int i = 0; i < 3; ++i) {  // this machine may have other work
    const auto start = std::chrono::steady_clock::now();
    const Finished described = lockstep_utility(arguments);
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
    best_s = std::min(best_s, taken.count());
    ASSERT_EQ(described.exit_code, 0) << described.output;
    for (const char* text :
         {"mesh pp=8 dp=64 fsdp=1 cp=1 tp=8: 4096 ranks\n",
          "pp         8      0 512 1024 1536 ... 3584  between nodes\n",
          "tp         8      0 1 2 3 ... 7             within a node\n",
          "h.*.attn.c_attn.weight  [192, 64]  [24, 64] rows ", "loss: all_reduce"}) {
      EXPECT_TRUE(described.says(text)) << text << " in\n" << described.output;
    }
  }
  EXPECT_LE(best_s, 2.0);
}

TEST_F(Gpt, ReachesTheLossOfF32InBf16) {
  const std::string data = tokens();
  for (const char* precision : {"f32", "bf16"}) {
    good(gpt(2, "train",
             deck(data, precision, {std::string("train.precision=\"") + precision + "\""})));
  }
  const double f32 = summary("f32").at("test_loss"), bf16 = summary("bf16").at("test_loss");
  EXPECT_NEAR(bf16, f32, 0.01 * f32);
  EXPECT_NE(bf16, f32);
}

TEST_F(Gpt, LearnsMoreThanTheFrequencyOfCharacters) {
  const std::string data = tokens(), output = good(gpt(2, "train", deck(data, "run")));
  EXPECT_NE(output.find(" tokens/s"), std::string::npos) << output;
  EXPECT_NE(output.find("test perplexity"), std::string::npos) << output;
  const auto found = summary("run");
  const double loss = found.at("test_loss"), perplexity = found.at("test_perplexity");
  EXPECT_LT(loss, character_entropy(text_) - 0.5);
  EXPECT_NEAR(perplexity, std::exp(loss), 1e-6 * perplexity);
  const std::string metrics = read_file(scratch_.file("run") + "/metrics.jsonl");
  EXPECT_NE(metrics.find("\"tokens_per_s\""), std::string::npos);
}

TEST_F(Gpt, KilledAndResumedHasTheSameBits) {
  const std::string data = tokens();
  good(gpt(2, "train", deck(data, "whole")));
  const Finished killed =
      run(app(2, "tests/apps/misbehave", deck(data, "killed")), {{"MISBEHAVE", "kill 1 18"}});
  ASSERT_NE(killed.exit_code, 0);
  auto again = deck(data, "killed");
  again.emplace_back("--resume");
  const std::string output = good(gpt(2, "train", again));
  EXPECT_NE(output.find("resumed from"), std::string::npos) << output;
  const std::string last = "/checkpoints/step-00000024.h5";
  expect_same_state(load_checkpoint(scratch_.file("whole") + last),
                    load_checkpoint(scratch_.file("killed") + last));
  EXPECT_EQ(results(scratch_.file("whole")), results(scratch_.file("killed")));
}

// The second with recomputed blocks, which must not change a bit.
TEST_F(Gpt, HasTheSameBitsOnAnyNumberOfRanksWhereItIsAsked) {
  const std::string data = tokens();
  const Arguments more{"train.reduction=\"invariant\"", "train.shards=4", "train.epochs=1"};
  good(gpt(1, "train", deck(data, "one", more)));
  auto recomputing = more;
  recomputing.emplace_back("model.recompute=true");
  good(gpt(2, "train", deck(data, "two", recomputing)));
  const std::string last = "/checkpoints/step-00000012.h5";
  expect_same_bits(load_checkpoint(scratch_.file("one") + last).model,
                   load_checkpoint(scratch_.file("two") + last).model);
  EXPECT_EQ(summary("one").at("test_loss"), summary("two").at("test_loss"));
}

TEST_F(Gpt, IsStartedWithoutItsVerbAndBySupervision) {
  const std::string data = tokens();
  good(run(app(1, "apps/gpt", deck(data, "plain", {"train.epochs=1"}))));
  std::string launcher = std::getenv("LOCKSTEP_LAUNCHER");  // mpiexec and its flags, up to -n
  launcher.resize(launcher.rfind(" -n"));
  Arguments command{built("apps/lockstep"),
                    "elastic",
                    "--launcher",
                    launcher,
                    "--settle",
                    "0.2",
                    "--max",
                    "2",
                    "--",
                    built("apps/gpt"),
                    "train"};
  for (const std::string& word : deck(data, "supervised", {"train.epochs=1"}))
    command.push_back(word);
  good(run(command));
  EXPECT_TRUE(summary("plain").at("completed"));
  EXPECT_TRUE(summary("supervised").at("completed"));
}

TEST_F(Gpt, EvaluationIsTheSameOnAnyNumberOfRanks) {
  const std::string data = tokens();
  good(gpt(1, "train", deck(data, "run", {"train.epochs=1"})));
  const auto judge = [&](int ranks) {
    return good(run(app(ranks, "apps/lockstep", {"evaluate", scratch_.file("run"), "--json"})));
  };
  const std::string found = judge(1);
  EXPECT_EQ(judge(2), found);
  EXPECT_EQ(nlohmann::json::parse(found).at("loss"), summary("run").at("test_loss"));
}

TEST_F(Gpt, SamplesTheSameTextForTheSameSeedOnAnyNumberOfRanks) {
  const std::string data = tokens();
  good(gpt(2, "train", deck(data, "run")));
  fs::remove_all(data);  // the run knows its characters
  const auto text = [&](int ranks, const Arguments& more) {
    // More tokens than the context.
    Arguments all{scratch_.file("run"), "--prompt", "After one", "--tokens", "70"};
    all.insert(all.end(), more.begin(), more.end());
    return good(gpt(ranks, "sample", all));
  };
  const std::string three = text(1, {"--samples", "3", "--seed", "7"});
  EXPECT_EQ(three.substr(0, 9), "After one");
  EXPECT_EQ(text(2, {"--samples", "3", "--seed", "7"}), three);
  EXPECT_NE(text(1, {"--samples", "3", "--seed", "8"}), three);
  const std::string first = text(1, {"--seed", "7"});
  EXPECT_EQ(three.substr(0, first.size() - 1) + "\n", first) << "the first of them";
  const std::string likeliest = text(1, {"--temperature", "0"});
  EXPECT_EQ(text(1, {"--top-k", "1", "--seed", "9"}), likeliest);
  EXPECT_EQ(text(1, {"--top-p", "1e-6", "--seed", "9"}), likeliest);
  EXPECT_NE(text(1, {}), likeliest);
  const Finished refused = gpt(1, "sample", {scratch_.file("run"), "--top-p", "0"});
  EXPECT_EQ(refused.exit_code, 2) << refused.output;
  EXPECT_TRUE(refused.says("top_p is a probability")) << refused.output;
}

TEST_F(Gpt, TakesBytesAndBytePairs) {
  for (const char* tokenizer : {"bytes", "gpt2"}) {
    const std::string data = tokens(tokenizer), dir = std::string("run_") + tokenizer;
    good(gpt(2, "train", deck(data, dir, {"train.epochs=1", "data.train_limit=256"})));
    Arguments more{scratch_.file(dir), "--prompt", "After", "--tokens", "5"};
    EXPECT_EQ(good(gpt(1, "sample", more)).substr(0, 5), "After");
    fs::rename(data, data + "_elsewhere");
    if (std::string(tokenizer) == "bytes") continue;
    const Finished gone = gpt(1, "sample", more);
    EXPECT_EQ(gone.exit_code, 2);
    EXPECT_TRUE(gone.says("needs vocab.json and merges.txt")) << gone.output;
    more.insert(more.end(), {"--tokenizer", data + "_elsewhere"});
    EXPECT_EQ(good(gpt(1, "sample", more)).substr(0, 5), "After");
  }
}

// tests/train/gpt2: weights as PyTorch and Hugging Face's transformers wrote them.
TEST_F(Gpt, BeginsWithHuggingFacesWeightsAndGivesThemBack) {
  const std::string hub = source("tests/train/gpt2/hub.safetensors"),
                    saved = source("tests/train/gpt2/model.safetensors");
  const Arguments size{"model.width=24",
                       "model.heads=3",
                       "model.context=16",
                       "data.context=8",
                       "train.epochs=1",
                       "data.train_limit=256",
                       "data.vocabulary=50",
                       "optimizer.lr=0.0",
                       "optimizer.weight_decay=0.0",
                       "model.residual_dropout=0.0"};
  text_ = "abcdefghijklmnopqrstuvwxyz ";
  for (int i = 0; i < 7; ++i) text_ += text_;
  const std::string data = tokens();
  auto with_init = size;
  with_init.push_back("train.init_from=\"" + hub + "\"");
  const std::string output = good(gpt(2, "train", deck(data, "run", with_init)));
  EXPECT_NE(output.find("took 28 of 28 tensors\n"), std::string::npos) << output;

  // A learning rate of 0 leaves them unchanged: the way back must end at the start.
  const std::string exported = scratch_.file("exported.safetensors"),
                    imported = scratch_.file("imported.h5"),
                    last = scratch_.file("run") + "/checkpoints/step-00000008.h5";
  good(lockstep_utility({"checkpoint", "export", last, "--hugging-face", "-o", exported}));
  expect_same_bits(read_safetensors(saved).tensors, read_safetensors(exported).tensors);
  good(lockstep_utility({"checkpoint", "import", hub, "-o", imported, "--deck",
                         scratch_.file("run") + "/deck.toml"}));
  good(lockstep_utility({"checkpoint", "diff", imported, exported}));
  const auto text = [&](const std::string& source) {
    return good(gpt(1, "sample", {source, "--prompt", "abc", "--tokens", "20", "--top-k", "20"}));
  };
  EXPECT_EQ(text(imported), text(scratch_.file("run")));
  const Finished unprompted = gpt(1, "sample", {imported});
  EXPECT_EQ(unprompted.exit_code, 2) << unprompted.output;
  EXPECT_TRUE(unprompted.says("give a --prompt")) << "its text has no line ends";
}

TEST_F(Gpt, CutsTextIntoShardsAndATestSet) {
  const std::string data = tokens();
  std::int64_t train = 0, test = 0, shards = 0;
  for (const auto& entry : fs::directory_iterator(data)) {
    if (entry.path().extension() != ".bin") continue;
    const TokenFile file(entry.path());
    ++shards;
    EXPECT_LE(file.size(), 9000);
    (entry.path().filename().string().starts_with("train") ? train : test) += file.size();
  }
  EXPECT_GT(shards, 3);
  const auto characters = std::ranges::count_if(
      text_, [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; });
  EXPECT_EQ(train + test, characters);
  EXPECT_NEAR(static_cast<double>(test), 0.1 * static_cast<double>(characters), 20.0);
  const Finished twice = gpt(1, "tokens", {scratch_.file("text.txt"), "--output", data});
  EXPECT_EQ(twice.exit_code, 2);
  EXPECT_TRUE(twice.says("already holds token files")) << twice.output;
  const std::string text = scratch_.file("text.txt");
  const Finished into_a_file = gpt(1, "tokens", {text, "--output", text});
  EXPECT_EQ(into_a_file.exit_code, 2);
  EXPECT_TRUE(into_a_file.says(text + " cannot be read: Not a directory")) << into_a_file.output;
}

// If mapped into memory it would be a bus error.
TEST_F(Gpt, ATokenFileThatIsCutWhileItIsReadIsExitCodeTwoWithItsName) {
  const std::string file = scratch_.file("train.bin"), metrics = scratch_.file("run/metrics.jsonl");
  std::vector<std::uint16_t> tokens(50'000);
  for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<std::uint16_t>(i % 100);
  write_token_file(file, tokens, 100);
  auto arguments = deck(file, "run",
                        {"train.epochs=100000", "data.test_set=false", "data.tokenizer=\"bytes\"",
                         "log.every_steps=1"});
  arguments.insert(arguments.begin(), "train");
  const Finished cut =
      run({"sh", "-c",
           quoted(app(2, "apps/gpt", arguments)) + " & run=$!; until grep -q step '" + metrics +
               "' 2>/dev/null; do kill -0 $run || exit 99; sleep 0.1; done; truncate -s 2000 '" +
               file + "'; wait $run"});
  EXPECT_TRUE(cut.ended_with(2)) << cut.exit_code << "\n" << cut.output;
  EXPECT_TRUE(cut.says(file)) << cut.output;
  EXPECT_TRUE(cut.says("2000")) << cut.output;
}

TEST_F(Gpt, SaysWhatIsWrong) {
  const auto expect = [](const Finished& finished, const std::string& text, int code = 2) {
    EXPECT_EQ(finished.exit_code, code) << finished.output;
    EXPECT_TRUE(finished.says(text)) << finished.output;
  };
  const std::string nowhere = scratch_.file("nowhere");
  expect(gpt(2, "train", deck(nowhere, "run")), "there is no " + nowhere);
  expect(gpt(2, "train", {source("inputs/synthetic.toml")}), "is not a language model");
  expect(classify(2, deck(nowhere, "run")), "which the program gpt trains");
  expect(gpt(1, "sample", {nowhere}), "No such file", 4);
  expect(gpt(1, "tokens", {nowhere, "-o", scratch_.file("x")}), "No such file");
  expect(gpt(1, "tokens", {scratch_.write("t", "x\xff"), "-o", scratch_.file("x")}),
         scratch_.file("t") + ": byte 1 of the text, 0xff, is not UTF-8");
  expect(gpt(1, "tokens",
             {scratch_.write("t", "x"), "-o", scratch_.file("x"), "--test-fraction", "nan"}),
         "nan is not a number from 0 to 0.99");
  expect(
      gpt(1, "tokens", {scratch_.write("t", "x"), "-o", scratch_.file("x"), "--tokenizer", "gpt2"}),
      "needs --vocabulary");
  // A damaged file is detected when its tokens are read: on every rank, with the place.
  const std::string data = scratch_.file("damaged");
  write_token_file(data + "/train.bin", std::vector<std::uint16_t>(13000, 70), 0);
  write_token_file(data + "/test.bin", std::vector<std::uint16_t>(2000, 70), 0);
  expect(gpt(2, "train", deck(data, "run", {"data.vocabulary=63"})),
         "of the file is 70, outside the vocabulary of 63");
}

}  // namespace
}  // namespace lockstep::test
